#include "eratos/agent/client.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace eratos::agent {
namespace {

ChatFault fault_of(Ended how) {
  switch (how) {
    case Ended::slow_first:
    case Ended::slow_idle:
      return ChatFault::silent;
    case Ended::cut:
      return ChatFault::cut;
    case Ended::too_large:
      return ChatFault::malformed;
    case Ended::interrupted:
      return ChatFault::interrupted;
    case Ended::whole:
    case Ended::unreachable:
    case Ended::untrusted:
    case Ended::slow_connect:
    case Ended::not_built_in:
      break;
  }
  return ChatFault::unreachable;
}

ChatFault fault_of_status(int status) {
  if (status == 429) return ChatFault::limited;
  return status >= 500 ? ChatFault::server : ChatFault::rejected;
}

void scrub(ChatReply& reply, const Secret& key) {
  reply.text = key.scrub(reply.text);
  for (ToolCall& c : reply.calls) {
    c.id = key.scrub(c.id);
    c.name = key.scrub(c.name);
    c.arguments = key.scrub(c.arguments);
  }
}

}  // namespace

Client::Client(const ModelSettings& settings, Transport& transport, Clock& clock,
               std::uint64_t seed, std::function<void(const Attempt&)> see)
    : settings_(settings),
      transport_(transport),
      clock_(clock),
      rng_(seed),
      see_(std::move(see)),
      wire_(wire_of(settings)),
      meter_(settings) {}

Client::~Client() = default;

void Client::keep_pace() {
  if (settings_.requests_per_minute <= 0) return;
  const double now = clock_.seconds();
  if (now < next_at_) clock_.sleep(next_at_ - now);
  next_at_ = std::max(now, next_at_) + 60 / settings_.requests_per_minute;
}

Client::Try Client::failed(const Posted& posted, const std::string& text) const {
  if (posted.how != Ended::whole) {
    const bool again = posted.how != Ended::interrupted && posted.how != Ended::not_built_in &&
                       posted.how != Ended::untrusted && posted.how != Ended::too_large;
    return {tl::unexpected<ChatFailure>({fault_of(posted.how), posted.what, posted.head.status}),
            posted.head, again};
  }
  const ServerWords words = server_words(text);
  const int status = posted.head.status;
  ChatFault fault = fault_of_status(status);
  if (is_overflow(status, words)) fault = ChatFault::overflow;
  // OpenAI's 429 of an account without credit does not pass by waiting.
  const bool no_credit = words.code == "insufficient_quota";
  std::string what = fmt::format("HTTP {}", status);
  if (!words.code.empty()) what += fmt::format(" ({})", words.code);
  if (!words.message.empty()) what += ": " + words.message;
  if (status >= 300 && status < 400) what += "; redirections are not followed";
  return {tl::unexpected<ChatFailure>({fault, std::move(what), status}), posted.head,
          passes(status) && fault != ChatFault::overflow && !no_credit};
}

Client::Try Client::try_once(const std::string& body) {
  Post post;
  wire_->address(post);
  post.key = settings_.key;
  post.body = body;
  post.patience = settings_.patience;
  keep_pace();
  std::unique_ptr<AnswerReader> reader;
  std::unique_ptr<SseReader> events;
  std::string text;
  const Posted posted = transport_.post(post, [&](const Head& head, std::string_view bytes) {
    if (head.status == 200 && events == nullptr && text.empty() &&
        head.value("content-type").find("text/event-stream") != std::string_view::npos) {
      reader = wire_->stream();
      events = std::make_unique<SseReader>([&](const SseEvent& e) { reader->see(e); });
    }
    if (events != nullptr) {
      events->feed(bytes);
    } else {
      text += bytes;
    }
  });
  if (posted.how == Ended::whole && posted.head.status == 200) {
    Try out{events != nullptr ? reader->end() : wire_->whole(text), posted.head, false};
    // A broken answer of a working server may come out whole the next time.
    out.again = !out.answer;
    if (!out.answer) out.answer.error().status = 200;
    return out;
  }
  // A stream that is cut after its last word is whole all the same.
  if (reader != nullptr && posted.how == Ended::cut) {
    Try out{reader->end(), posted.head, false};
    if (out.answer) return out;
  }
  return failed(posted, text);
}

tl::expected<ChatReply, ChatFailure> Client::ask(const ChatRequest& request) {
  const std::string body = wire_->body(request);
  std::vector<Attempt> attempts;
  Usage lost{0, 0, true};
  for (int k = 1;; ++k) {
    if (const std::optional<std::string> refusal = meter_.refusal(body.size())) {
      return tl::unexpected<ChatFailure>(
          {ChatFault::spent, *refusal, 0, lost, std::move(attempts)});
    }
    Try tried = try_once(body);
    if (tried.answer) {
      ChatReply& reply = *tried.answer;
      scrub(reply, settings_.key);
      if (!reply.usage.stated) {
        std::size_t bytes = reply.text.size();
        for (const ToolCall& c : reply.calls) bytes += c.name.size() + c.arguments.size();
        reply.usage = {tokens_of_bytes(body.size()), tokens_of_bytes(bytes), false};
      }
      meter_.add(reply.usage);
      reply.usage = {reply.usage.in + lost.in, reply.usage.out + lost.out,
                     reply.usage.stated && lost.stated};
      reply.attempts = std::move(attempts);
      return std::move(reply);
    }
    ChatFailure& failure = tried.answer.error();
    failure.what = settings_.key.scrub(failure.what);
    if (tried.head.status == 200) {  // the server has worked, and will say so on its bill
      const Usage usage{tokens_of_bytes(body.size()), 0, false};
      meter_.add(usage);
      lost = {lost.in + usage.in, lost.out, false};
    }
    const std::optional<double> asked = asked_wait(tried.head, clock_.unix_seconds());
    const bool too_long = asked && *asked > settings_.retry.longest_asked_s;
    if (tried.again && too_long) {
      failure.what += fmt::format(
          "; the server asks to wait {:.0f} s, more than the {:.0f} s "
          "that are waited for",
          *asked, settings_.retry.longest_asked_s);
    }
    if (!tried.again || too_long || k >= settings_.retry.tries) {
      if (k > 1) failure.what += fmt::format(" (try {} of {})", k, settings_.retry.tries);
      failure.usage = lost;
      failure.attempts = std::move(attempts);
      return tl::unexpected<ChatFailure>(std::move(failure));
    }
    const double wait = wait_after(k, asked, settings_.retry, rng_);
    attempts.push_back({failure.fault, failure.what, wait});
    if (see_) see_(attempts.back());
    if (!clock_.sleep(wait)) {
      return tl::unexpected<ChatFailure>({ChatFault::interrupted,
                                          "interrupted while waiting for the model's server", 0,
                                          lost, std::move(attempts)});
    }
  }
}

}  // namespace eratos::agent
