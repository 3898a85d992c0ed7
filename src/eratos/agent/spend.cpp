#include "eratos/agent/spend.h"

#include <fmt/format.h>

namespace eratos::agent {
namespace {

std::string grouped(std::int64_t n) {
  std::string digits = std::to_string(n);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

}  // namespace

std::optional<double> cost_of(const Usage& usage, std::optional<double> price_in,
                              std::optional<double> price_out) {
  if (!price_in || !price_out) return std::nullopt;
  constexpr double kMillion = 1e6;
  return (static_cast<double>(usage.in) * *price_in + static_cast<double>(usage.out) * *price_out) /
         kMillion;
}

std::optional<std::string> Meter::refusal(std::size_t bytes) const {
  const Usage then{used_.in + tokens_of_bytes(bytes), used_.out + settings_.reply_tokens, false};
  if (settings_.most_tokens > 0 && then.in + then.out > settings_.most_tokens) {
    return fmt::format("{} tokens are used, and one more request could take {} of the {} allowed",
                       grouped(used_.in + used_.out), grouped(then.in + then.out),
                       grouped(settings_.most_tokens));
  }
  const std::optional<double> money = cost_of(then, settings_.price_in, settings_.price_out);
  if (settings_.most_money && money && *money > *settings_.most_money) {
    return fmt::format("one more request could take {:.4f} of the {:.4f} {} allowed", *money,
                       *settings_.most_money, settings_.currency);
  }
  return std::nullopt;
}

void Meter::add(const Usage& usage) {
  used_.in += usage.in;
  used_.out += usage.out;
  used_.stated = used_.stated && usage.stated;
}

std::string usage_text(const Usage& usage, const ModelSettings& settings) {
  const std::optional<double> money = cost_of(usage, settings.price_in, settings.price_out);
  return fmt::format("{} tokens in and {} out ({}); {}", grouped(usage.in), grouped(usage.out),
                     usage.stated ? "stated by the server" : "partly estimated",
                     money ? fmt::format("{:.4f} {}", *money, settings.currency)
                           : std::string("the price is unknown"));
}

}  // namespace eratos::agent
