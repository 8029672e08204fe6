#include "traces/import/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/traces/pickle_text.h"
#include "tests/traces/string_input.h"

namespace shardscope {
namespace {

using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Pickle read(const std::string& bytes, const PickleBounds& bounds = {}) {
  samples::StringInput input(bytes);
  return read_pickle(input, "a.pickle", bounds);
}

std::string refusal(const std::string& bytes) {
  try {
    read(bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::int64_t> integers(const Pickle& pickle, PickleValue list) {
  std::vector<std::int64_t> values;
  for (const PickleValue& value : pickle.elements(list))
    values.push_back(pickle.integer(value).value_or(-99));
  return values;
}

TEST(Pickle, ReadsIntegersOfEveryWidthWithTheirSign) {
  // pickle.dumps([255, 65535, -2, 2**40, -(2**40), -1, 0], 4) without its frame.
  const auto pickle = read(
      "\x80\x04](K\xFFM\xFF\xFFJ\xFE\xFF\xFF\xFF"
      "\x8A\x06\x00\x00\x00\x00\x00\x01"
      "\x8A\x06\x00\x00\x00\x00\x00\xFF"
      "\x8A\x01\xFF\x8A\x00"
      "e."s);
  EXPECT_THAT(integers(pickle, pickle.root()),
              ElementsAre(255, 65535, -2, std::int64_t{1} << 40, -(std::int64_t{1} << 40), -1, 0));
}

TEST(Pickle, KnowsIntegersOfMoreThan64BitsOnlyByType) {
  const auto pickle = read("\x80\x04\x8A\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."s);
  EXPECT_EQ(pickle.root().kind, PickleKind::huge_integer);
  EXPECT_EQ(pickle.integer(pickle.root()), std::nullopt);
  EXPECT_EQ(python_type_of(pickle.root().kind), "int");
}

TEST(Pickle, ReadsRealsAsBigEndian) {
  const auto pickle = read("\x80\x04G\x3F\xE3\x33\x33\x33\x33\x33\x33."s);
  EXPECT_EQ(pickle.real(pickle.root()), 0.6);
}

TEST(Pickle, TellsBooleansFromIntegers) {
  const auto pickle = read("\x80\x04\x88\x89\x86."s);
  EXPECT_EQ(pickle.boolean(pickle.elements(pickle.root())[0]), true);
  EXPECT_EQ(pickle.boolean(pickle.elements(pickle.root())[1]), false);
  EXPECT_EQ(pickle.integer(pickle.elements(pickle.root())[0]), std::nullopt);
}

TEST(Pickle, KeepsSharedContainersShared) {
  // a = [7]; pickle.dumps([a, a], 4)
  const auto pickle = read(
      "\x80\x04]\x94(]\x94K\x07"
      "ah\x01"
      "e."s);
  const auto elements = pickle.elements(pickle.root());
  ASSERT_EQ(elements.size(), 2u);
  EXPECT_EQ(elements[0], elements[1]);
  EXPECT_THAT(integers(pickle, elements[1]), ElementsAre(7));
  EXPECT_EQ(pickle.largest_memo_index_read(), 1);
}

TEST(Pickle, ReadsTheMemoOfProtocol2) {
  // a = "x"; pickle.dumps((a, a), 2)
  const auto pickle = read("\x80\x02X\x01\x00\x00\x00xq\x00h\x00\x86q\x01."s);
  EXPECT_EQ(pickle.protocol(), 2);
  EXPECT_EQ(pickle.text(pickle.elements(pickle.root())[1]), "x");
}

TEST(Pickle, AppendsInBatches) {
  const auto pickle = read(
      "\x80\x04](K\x01K\x02"
      "e(K\x03K\x04"
      "eK\x05"
      "a."s);
  EXPECT_THAT(integers(pickle, pickle.root()), ElementsAre(1, 2, 3, 4, 5));
}

TEST(Pickle, FindsTheLastValueOfAKey) {
  const auto pickle = read(samples::pickled::whole(
      samples::pickled::dict({{"a", "K\x01"}, {"b", "K\x02"}, {"a", "K\x03"}})));
  EXPECT_EQ(pickle.integer(*pickle.find(pickle.root(), "a")), 3);
  EXPECT_EQ(pickle.find(pickle.root(), "c"), std::nullopt);
}

TEST(Pickle, CountsOpcodes) {
  const auto pickle = read(
      "\x80\x04](K\x01K\x02"
      "e."s);
  EXPECT_THAT(pickle.opcodes(),
              ElementsAre(Pair("APPENDS", 1), Pair("BININT1", 2), Pair("EMPTY_LIST", 1),
                          Pair("MARK", 1), Pair("PROTO", 1), Pair("STOP", 1)));
  EXPECT_EQ(pickle.bytes(), 10);
}

TEST(Pickle, RefusesWhateverWouldCallOrBuildSomething) {
  // pickle.dumps of an object whose __reduce__ is (os.system, ("true",)).
  EXPECT_THAT(refusal("\x80\x04\x8C\x05posix\x94\x8C\x06system\x94\x93\x94."s),
              HasSubstr("a.pickle: opcode STACK_GLOBAL at byte 19"));
  EXPECT_THAT(refusal("\x80\x02"
                      "cos\nsystem\n."s),
              HasSubstr("GLOBAL at byte 2"));
  for (const char code : "Rbio\x81\x92\x82\x83\x84PQ\x97\x98ILFSVgp"s)
    EXPECT_THAT(refusal("\x80\x04N"s + code), HasSubstr("at byte 3")) << code;
}

TEST(Pickle, KeepsWhatStoodBeforeTheEndOfACutFile) {
  // {"a": [1, 2, {"b": 3  and no more
  const auto pickle = read(
      "\x80\x04}(\x8C\x01"
      "a](K\x01K\x02}(\x8C\x01"
      "bK\x03"s);
  const auto list = pickle.find(pickle.root(), "a");
  ASSERT_TRUE(list);
  ASSERT_EQ(pickle.elements(*list).size(), 3u);
  EXPECT_EQ(pickle.integer(*pickle.find(pickle.elements(*list)[2], "b")), 3);
  EXPECT_EQ(pickle.problem(), "cut off after 20 bytes");
}

TEST(Pickle, AnOpenListOfOneElementIsClosedToo) {
  // {"a": 1, "b": [[7, 8  and no more: the outer list's one element is added without a mark.
  const auto pickle = read(
      "\x80\x04}(\x8C\x01"
      "aK\x01\x8C\x01"
      "b]](K\x07K\x08"s);
  const auto list = pickle.find(pickle.root(), "b");
  ASSERT_TRUE(list);
  ASSERT_EQ(pickle.elements(*list).size(), 1u);
  EXPECT_THAT(integers(pickle, pickle.elements(*list)[0]), ElementsAre(7, 8));
}

TEST(Pickle, StopsAtWhatIsNoOpcode) {
  const auto pickle = read(
      "\x80\x04](K\x01\xFFK\x02"
      "e."s);
  EXPECT_THAT(integers(pickle, pickle.root()), ElementsAre(1));
  EXPECT_EQ(pickle.problem(), "no opcode at byte 6: the rest is lost");
}

TEST(Pickle, DoesNotBelieveLengths) {
  EXPECT_EQ(read("\x80\x04X\xFF\xFF\xFF\x03"
                 "abc"s)
                .problem(),
            "cut off after 10 bytes");
  EXPECT_THAT(read("\x80\x04\x8D\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F"
                   "abc"s)
                  .problem(),
              HasSubstr("a text of more than 64 MiB"));
  EXPECT_THAT(read("\x80\x04Nr\xFF\xFF\xFF\xFF."s).problem(), HasSubstr("a memo with holes"));
}

TEST(Pickle, BoundsNestingAndValues) {
  EXPECT_EQ(read("\x80\x04" + std::string(50, '('), {.max_depth = 49}).problem(),
            "nested deeper than 49");
  EXPECT_THAT(read("\x80\x04(" + std::string(50, ']') + "l.", {.max_cells = 49}).problem(),
              HasSubstr("more than 49 values"));
  EXPECT_THAT(read("\x80\x04" + std::string(50, 'N'), {.max_bytes = 20}).problem(),
              HasSubstr("more than 20 bytes"));
}

TEST(Pickle, TakesOrphansForDamage) {
  for (const char* orphan : {"a", "e", "s", "u", "\x85", "\x86", "\x87", "t", "l", "d", "0", "1",
                             "h\x01", "\x94", ".", "K\x01K\x02s", "](K\x01u", "}(K\x01u"})
    EXPECT_THAT(read("\x80\x04"s + orphan).problem(), HasSubstr("the rest is lost")) << orphan;
}

// What Python writes for an OrderedDict {"a": 1} with the attribute _metadata: a call, items,
// state.
TEST(Pickle, AnOrderedDictIsADict) {
  const std::string bytes =
      "\x80\x02"
      "ccollections\nOrderedDict\n)R(X\x01\0\0\0aK\x01u}X\x09\0\0\0_metadataNsb."s;
  const Pickle pickle = read(bytes, {.keeps_objects = true});
  EXPECT_EQ(pickle.problem(), "");
  ASSERT_EQ(pickle.root().kind, PickleKind::dict);
  ASSERT_TRUE(pickle.find(pickle.root(), "a"));
  EXPECT_EQ(pickle.integer(*pickle.find(pickle.root(), "a")), 1);
  EXPECT_FALSE(pickle.find(pickle.root(), "_metadata"));
  EXPECT_THAT(refusal(bytes), HasSubstr("opcode GLOBAL"));
}

// Items of a class's own kind of dict, and elements of its own kind of list.
TEST(Pickle, WhatIsAddedToAnObjectIsPassedOver) {
  const std::string made =
      "\x80\x02"
      "ctrainer\nState\n)\x81"s;
  for (const std::string& added : {"(X\x01\0\0\0aK\x01u."s,
                                   "(K\x01K\x02"
                                   "e."s}) {
    const Pickle pickle = read(made + added, {.keeps_objects = true});
    EXPECT_EQ(pickle.problem(), "");
    EXPECT_EQ(pickle.root().kind, PickleKind::object);
    EXPECT_EQ(pickle.elements(pickle.root()).size(), 2u);
  }
}

}  // namespace
}  // namespace shardscope
