// SPDX-License-Identifier: Apache-2.0
#include "files.h"
#include "io/output_file.h"
#include "io/protobuf.h"

namespace kedge {
namespace {

using io::Message;
using namespace std::string_literals;

std::string written(const Message& message) {
  const test::TemporaryFolder folder;
  io::OutputFile file(folder.file("message"));
  message.append_to(file);
  file.finish(io::Durability::renamed);
  const std::string bytes = test::read_file(folder.file("message"));
  EXPECT_EQ(message.size(), bytes.size());
  return bytes;
}

TEST(Message, IsWrittenAsTheWireFormatHasIt) {
  EXPECT_EQ(written(Message()), "");
  EXPECT_EQ(written(Message().number(1, 0)), "\x08\x00"s);
  EXPECT_EQ(written(Message().number(1, 127)), "\x08\x7f"s);
  EXPECT_EQ(written(Message().number(1, 150)), "\x08\x96\x01"s);  // the example of the format's own description
  EXPECT_EQ(written(Message().number(20, UINT64_MAX)), "\xa0\x01" + std::string(9, '\xff') + "\x01");
  EXPECT_EQ(written(Message().real(2, -2)), "\x15\x00\x00\x00\xc0"s);
  EXPECT_EQ(written(Message().text(2, "testing")), "\x12\x07testing"s);
  EXPECT_EQ(written(Message().text(2, "")), "\x12\x00"s);
  EXPECT_EQ(written(Message().message(3, Message().number(1, 150))), "\x1a\x03\x08\x96\x01"s);
}

TEST(Message, BorrowsBytesWhereverTheyAreNested) {
  const std::string large(300, 'z');
  const auto bytes = std::as_bytes(std::span(large));
  const Message inner = Message().number(1, 1).borrow(9, bytes).text(2, "end");
  const std::string inner_bytes = "\x08\x01\x4a\xac\x02" + large + "\x12\x03" + "end";
  EXPECT_EQ(written(inner), inner_bytes);
  const Message outer = Message().message(5, inner).borrow(6, {}).message(5, inner).number(7, 2);
  const std::string nested = "\x2a\xb6\x02" + inner_bytes;
  EXPECT_EQ(written(outer), nested + "\x32\x00"s + nested + "\x38\x02");
}

}  // namespace
}  // namespace kedge
