#include "eratos/text/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "eratos/text/json.h"
#include "eratos/text/yaml.h"
#include "support.h"

namespace eratos::text {
namespace {

namespace fs = std::filesystem;

TEST(File, WhatIsWrittenIsRead) {
  const Scratch scratch;
  const std::string bytes = std::string("a\0\r\n\xFF", 5) + std::string(300'000, 'x');
  ASSERT_TRUE(write_file(scratch.path("f"), bytes));
  EXPECT_EQ(read_file(scratch.path("f")), bytes);
  ASSERT_TRUE(write_file(scratch.path("empty"), ""));
  EXPECT_EQ(read_file(scratch.path("empty")), "");
  EXPECT_EQ(scratch.files(), 2u);
}

TEST(File, LimitIsExact) {
  const Scratch scratch;
  ASSERT_TRUE(write_file(scratch.path("f"), "12345"));
  EXPECT_EQ(read_file(scratch.path("f"), 5), "12345");
  EXPECT_EQ(
      faults_of(read_file(scratch.path("f"), 4)),
      scratch.path("f") + ": error: too large: 5 bytes, the limit is 4; is this the right file?");
}

TEST(File, HundredMegabytesAreRefusedUnread) {
  const Scratch scratch;
  ASSERT_TRUE(write_file(scratch.path("big.yaml"), ""));
  fs::resize_file(scratch.path("big.yaml"), 100'000'000);
  const StopWatch watch;
  const std::string expected =
      scratch.path("big.yaml") +
      ": error: too large: 100000000 bytes, the limit is 1000000; is this the right file?";
  EXPECT_EQ(faults_of(parse_yaml_file(scratch.path("big.yaml"))), expected);
  EXPECT_EQ(faults_of(parse_json_file(scratch.path("big.yaml"))), expected);
  EXPECT_LT(watch.seconds(), 0.1);
}

TEST(File, EndlessDevicesAreReadToTheLimitOnly) {
  const StopWatch watch;
  EXPECT_EQ(faults_of(read_file("/dev/zero")),
            "/dev/zero: error: too large: more than 1000000 bytes; is this the right file?");
  EXPECT_LT(watch.seconds(), 1.0);
  EXPECT_EQ(read_file("/dev/null"), "");
}

TEST(File, ReadFaultsSayWhy) {
  const Scratch scratch;
  ASSERT_TRUE(write_file(scratch.path("pretrain.yaml"), "x"));
  EXPECT_EQ(faults_of(read_file(scratch.path("pretrian.yaml"))),
            scratch.path("pretrian.yaml") + ": error: no such file; did you mean `pretrain.yaml`?");
  EXPECT_EQ(faults_of(read_file(scratch.path("none/x.yaml"))),
            scratch.path("none/x.yaml") + ": error: no such file; check the path");
  EXPECT_EQ(faults_of(read_file(scratch.path("pretrain.yaml/x"))),
            scratch.path("pretrain.yaml/x") + ": error: no such file; check the path");
  if (::geteuid() != 0) {  // root may read everything
    fs::permissions(scratch.path("pretrain.yaml"), fs::perms::none);
    EXPECT_EQ(faults_of(read_file(scratch.path("pretrain.yaml"))),
              scratch.path("pretrain.yaml") +
                  ": error: cannot be read: Permission denied; check the permissions");
  }
}

TEST(File, ExistingFilesAreKeptUnlessTold) {
  const Scratch scratch;
  const std::string path = scratch.path("result.json");
  ASSERT_TRUE(write_file(path, "mine"));
  EXPECT_EQ(faults_of(write_file(path, "other")),
            path +
                ": error: exists already and is left as it is; "
                "choose another name or ask for it to be overwritten");
  EXPECT_EQ(read_file(path), "mine");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  ASSERT_TRUE(write_file(path, "other", Overwrite::yes));
  EXPECT_EQ(read_file(path), "other");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
  EXPECT_EQ(scratch.files(), 1u);
}

TEST(File, SymbolicLinksStayLinks) {
  const Scratch scratch;
  ASSERT_TRUE(write_file(scratch.path("real"), "old"));
  fs::create_symlink("real", scratch.path("link"));
  ASSERT_TRUE(write_file(scratch.path("link"), "new", Overwrite::yes));
  EXPECT_TRUE(fs::is_symlink(scratch.path("link")));
  EXPECT_EQ(read_file(scratch.path("real")), "new");
  fs::create_symlink("nowhere", scratch.path("dangling"));
  EXPECT_FALSE(write_file(scratch.path("dangling"), "x"));
  EXPECT_EQ(scratch.files(), 2u);
}

TEST(File, WriteFaultsSayWhyAndLeaveNothing) {
  const Scratch scratch;
  EXPECT_EQ(faults_of(write_file(scratch.path("none/f"), "x")),
            scratch.path("none/f") + ": error: its folder does not exist; create the folder first");
  EXPECT_EQ(faults_of(write_file(scratch.path(""), "x")),
            scratch.path("") + ": error: is a folder; name a file inside it");
  EXPECT_EQ(faults_of(write_file("/dev/full", "x")),
            "/dev/full: error: cannot be written: No space left on device; "
            "check the permissions and the free space");
  EXPECT_TRUE(write_file("/dev/null", "x"));
  EXPECT_EQ(scratch.files(), 0u);
}

}  // namespace
}  // namespace eratos::text
