// The world for talks with models: HTTP, the clock, and Ctrl-C.
#pragma once

#include "eratos/agent/transport.h"

namespace eratos::apps {

class ModelTransport final : public agent::Transport {
 public:
  agent::Posted post(
      const agent::Post& post,
      const std::function<void(const agent::Head&, std::string_view)>& take) override;
};

class WallClock final : public agent::Clock {
 public:
  double seconds() override;
  std::int64_t unix_seconds() override;
  bool sleep(double seconds) override;
};

}  // namespace eratos::apps
