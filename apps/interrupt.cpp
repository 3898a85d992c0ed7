#include "apps/interrupt.h"

#include "apps/ranks.h"

namespace eratos::apps {

namespace {

volatile std::sig_atomic_t pressed = 0;

extern "C" void on_search_interrupt(int /*signal*/) { pressed = 1; }

}  // namespace

Interruptible::Interruptible()
    : before_(std::signal(SIGINT, on_search_interrupt)),
      before_term_(leads_ranks() ? std::signal(SIGTERM, on_search_interrupt) : SIG_DFL) {}
Interruptible::~Interruptible() {
  std::signal(SIGINT, before_);
  if (leads_ranks()) std::signal(SIGTERM, before_term_);
}

bool interrupted() { return pressed != 0; }

}  // namespace eratos::apps
