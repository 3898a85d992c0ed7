#include "apps/interrupt.h"

namespace eratos::apps {

namespace {

volatile std::sig_atomic_t pressed = 0;

extern "C" void on_search_interrupt(int /*signal*/) { pressed = 1; }

}  // namespace

Interruptible::Interruptible() : before_(std::signal(SIGINT, on_search_interrupt)) {}
Interruptible::~Interruptible() { std::signal(SIGINT, before_); }

bool interrupted() { return pressed != 0; }

}  // namespace eratos::apps
