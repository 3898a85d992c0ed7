// A model behind a server: requests sent, tried again where that helps, paid for within a budget.
//
// Every text that leaves this file for the rest of eratos, of answers and of errors alike, has gone
// through Secret::scrub(): a server that repeats its key tells nobody.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "eratos/agent/chat.h"
#include "eratos/agent/settings.h"
#include "eratos/agent/spend.h"
#include "eratos/agent/transport.h"
#include "eratos/agent/wire.h"
#include "eratos/base/rng.h"

namespace eratos::agent {

class Client final : public Chat {
 public:
  // `see` is told of each try that failed, before the wait. All that is referred to outlives it.
  Client(const ModelSettings& settings, Transport& transport, Clock& clock, std::uint64_t seed,
         std::function<void(const Attempt&)> see = {});
  ~Client() override;

  tl::expected<ChatReply, ChatFailure> ask(const ChatRequest& request) override;

  // Tokens that an earlier part of the same talk has used.
  void charge(const Usage& usage) { meter_.add(usage); }

 private:
  struct Try {
    tl::expected<ChatReply, ChatFailure> answer;
    Head head;
    bool again = false;  // may help
  };
  Try try_once(const std::string& body);
  Try failed(const Posted& posted, const std::string& text) const;
  void keep_pace();

  ModelSettings settings_;
  Transport& transport_;
  Clock& clock_;
  Rng rng_;
  std::function<void(const Attempt&)> see_;
  std::unique_ptr<Wire> wire_;
  Meter meter_;
  double next_at_ = 0;  // of the clock: not before
};

}  // namespace eratos::agent
