#include "eratos/agent/sse.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace eratos::agent {
namespace {

std::vector<SseEvent> events_of(std::string_view bytes, std::size_t piece) {
  std::vector<SseEvent> out;
  SseReader reader([&](const SseEvent& e) { out.push_back(e); });
  for (std::size_t at = 0; at < bytes.size(); at += piece) reader.feed(bytes.substr(at, piece));
  return out;
}

TEST(Sse, TheWorkedExampleHoweverItIsCut) {
  const std::string_view bytes = "data: a\ndata: b\n\n: alive\n\nevent: done\ndata: c\n\n";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, bytes.size()}) {
    const std::vector<SseEvent> events = events_of(bytes, piece);
    ASSERT_EQ(events.size(), 2u) << piece;
    EXPECT_EQ(events[0].data, "a\nb");
    EXPECT_EQ(events[0].name, "");
    EXPECT_EQ(events[1].data, "c");
    EXPECT_EQ(events[1].name, "done");
  }
}

TEST(Sse, LinesEndInAnyOfThreeWays) {
  for (const char* bytes : {"data: x\r\n\r\n", "data: x\r\r", "data: x\n\n"}) {
    const std::vector<SseEvent> events = events_of(bytes, 1);
    ASSERT_EQ(events.size(), 1u) << bytes;
    EXPECT_EQ(events[0].data, "x");
  }
}

TEST(Sse, AByteOrderMarkAndAMissingBlank) {
  const std::vector<SseEvent> events = events_of(
      "\xEF\xBB\xBF"
      "data:x\nid: 7\n\n",
      2);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].data, "x");
}

TEST(Sse, WhatNoEmptyLineEndedIsNoEvent) {
  std::vector<SseEvent> events;
  SseReader reader([&](const SseEvent& e) { events.push_back(e); });
  reader.feed("data: half\n");
  EXPECT_TRUE(events.empty());
  EXPECT_TRUE(reader.is_inside());
  reader.feed("\n");
  EXPECT_EQ(events.size(), 1u);
  EXPECT_FALSE(reader.is_inside());
}

}  // namespace
}  // namespace eratos::agent
