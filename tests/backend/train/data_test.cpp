#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "backend/data/encode.h"
#include "backend/data/llm_c_header.h"
#include "backend/data/token_batch.h"
#include "backend/data/token_stream.h"
#include "backend/train/same_job.h"
#include "core/base/error.h"
#include "tests/backend/train/temporary_folder.h"

namespace shardscope {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string uint16_bytes(const std::vector<std::uint16_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size()};
}

std::string llm_c_bytes(std::int32_t version, std::int32_t count,
                        const std::vector<std::uint16_t>& tokens) {
  LlmCHeader header{llm_c_magic, version, count};
  return std::string(reinterpret_cast<const char*>(header.data()), sizeof header) +
         uint16_bytes(tokens);
}

std::vector<std::int32_t> all_of(const TokenStream& stream) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(stream.size()));
  stream.copy(0, tokens);
  return tokens;
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Tokens 0, 1, ... count - 1.
TokenStream counting_stream(const TemporaryFolder& folder, std::uint16_t count) {
  std::vector<std::uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{0});
  return TokenStream::open({folder.write("count.bin", uint16_bytes(tokens))},
                           TokenFormat::automatic);
}

TEST(TokenStream, ReadsTextAsBytes) {
  const TemporaryFolder folder;
  const auto stream = TokenStream::open({folder.write("a.txt", "A\n\xff")}, TokenFormat::automatic);
  EXPECT_THAT(all_of(stream), ElementsAre(65, 10, 255));
}

TEST(TokenStream, ReadsUint16LittleEndian) {
  const TemporaryFolder folder;
  const auto stream = TokenStream::open({folder.write("a.bin", std::string("\x01\x02\xff\xff", 4))},
                                        TokenFormat::automatic);
  EXPECT_THAT(all_of(stream), ElementsAre(0x0201, 65535));
}

TEST(TokenStream, SkipsTheHeaderOfLlmC) {
  const TemporaryFolder folder;
  const auto stream = TokenStream::open({folder.write("a.bin", llm_c_bytes(1, 2, {50256, 7}))},
                                        TokenFormat::automatic);
  EXPECT_THAT(all_of(stream), ElementsAre(50256, 7));
}

TEST(TokenStream, JoinsFilesOfAFolderByPathAndLeavesOutHiddenOnes) {
  const TemporaryFolder folder;
  folder.write("b", "3");
  folder.write("a/z", "2");
  folder.write("a/b", "1");
  folder.write(".git/x", "0");
  EXPECT_THAT(all_of(TokenStream::open({folder.path()}, TokenFormat::automatic)),
              ElementsAre('1', '2', '3'));
}

TEST(TokenStream, TakesABinaryAmongTextAsBytes) {
  const TemporaryFolder folder;
  folder.write("a.bin", "\x01");
  folder.write("b.txt", "B");
  EXPECT_THAT(all_of(TokenStream::open({folder.path()}, TokenFormat::automatic)),
              ElementsAre(1, 'B'));
}

TEST(TokenStream, TakesAFolderOfOnlyBinAsTokenFiles) {
  const TemporaryFolder folder;
  folder.write("1.bin", uint16_bytes({300}));
  folder.write("2.bin", uint16_bytes({301}));
  EXPECT_THAT(all_of(TokenStream::open({folder.path()}, TokenFormat::automatic)),
              ElementsAre(300, 301));
}

TEST(TokenStream, RefusesHalfAToken) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.bin", "abc");
  EXPECT_THAT(error_of([&] { TokenStream::open({path}, TokenFormat::automatic); }),
              testing::AllOf(HasSubstr(path.string()), HasSubstr("3 bytes")));
}

TEST(TokenStream, RefusesACountThatDoesNotMatchTheSize) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.bin", llm_c_bytes(1, 3, {1, 2}));
  EXPECT_THAT(error_of([&] { TokenStream::open({path}, TokenFormat::automatic); }),
              testing::AllOf(HasSubstr("3 tokens"), HasSubstr("4 bytes")));
}

TEST(TokenStream, RefusesAnotherVersionOfLlmC) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.bin", llm_c_bytes(2, 1, {1}));
  EXPECT_THAT(error_of([&] { TokenStream::open({path}, TokenFormat::automatic); }),
              HasSubstr("version 2"));
}

TEST(TokenStream, RefusesACutOffHeader) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.bin", llm_c_bytes(1, 1, {1}).substr(0, 1000));
  EXPECT_THAT(error_of([&] { TokenStream::open({path}, TokenFormat::llm_c); }),
              HasSubstr("1000 bytes"));
}

TEST(TokenStream, RefusesWhatIsMissingOrEmpty) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      error_of([&] { TokenStream::open({folder.path() / "none"}, TokenFormat::automatic); }),
      HasSubstr("none"));
  const auto empty = folder.write("empty.txt", "");
  EXPECT_THAT(error_of([&] { TokenStream::open({empty}, TokenFormat::automatic); }),
              HasSubstr("no tokens"));
}

TEST(TokenStream, WrapsSoThatEveryPairStandsInTheData) {
  const TemporaryFolder folder;
  // 5 tokens make a circle of 4 inputs: 0 1 2 3 | 0 1 ..., each with its successor as target.
  const auto stream = counting_stream(folder, 5);
  std::array<std::int32_t, 6> inputs{};
  std::array<std::int32_t, 6> targets{};
  stream.read(6, inputs, targets);
  EXPECT_THAT(inputs, ElementsAre(2, 3, 0, 1, 2, 3));
  EXPECT_THAT(targets, ElementsAre(3, 4, 1, 2, 3, 4));
}

TEST(TokenStream, KnowsByNamesWhetherTextIsRead) {
  const TemporaryFolder folder;
  const auto tokens = folder.write("tokens/a.bin", "12"), text = folder.write("text/a.txt", "1");
  folder.write("mixed/a.bin", "12");
  folder.write("mixed/a.txt", "1");
  const auto reads = [](const std::filesystem::path& path, TokenFormat format) {
    return reads_text({path}, format);
  };
  EXPECT_FALSE(reads(tokens, TokenFormat::automatic));
  EXPECT_FALSE(reads(folder.path() / "tokens", TokenFormat::automatic));
  EXPECT_TRUE(reads(text, TokenFormat::automatic));
  EXPECT_TRUE(reads(folder.path() / "mixed", TokenFormat::automatic));
  EXPECT_TRUE(reads(tokens, TokenFormat::text));
  EXPECT_FALSE(reads(text, TokenFormat::uint16));
  EXPECT_TRUE(reads_text({tokens, text}, TokenFormat::automatic));
}

/// The texts of two jobs on that many tokens, which are 0 but for one of the second job's.
std::vector<std::string> texts_of_jobs_that_differ_at(const TemporaryFolder& folder,
                                                      std::int64_t tokens, std::int64_t place) {
  const auto model = folder.write("model/config.json", "{}").parent_path();
  std::vector<std::string> texts;
  for (const char* name : {"a.bin", "b.bin"}) {
    const auto data = folder.write(name, "");
    std::filesystem::resize_file(data, static_cast<std::uintmax_t>(2 * tokens));
    if (!texts.empty()) std::fstream(data, std::ios::in | std::ios::out).seekp(2 * place).put('1');
    Job job;
    job.model = model;
    job.data = {data};
    job.token_format = TokenFormat::uint16;
    texts.push_back(common_job_text(job));
  }
  return texts;
}

TEST(SameJob, ReadsAllOfTheDataUpTo64MiTokens) {
  for (const std::int64_t place : {0, 5'000, 131'071, 399'999}) {
    const TemporaryFolder folder;
    const auto texts = texts_of_jobs_that_differ_at(folder, 400'000, place);
    EXPECT_THAT(first_difference(texts).value_or("none"),
                HasSubstr("data is 400000 tokens with digest "));
  }
}

// 100 Mi tokens: 1024 pieces of 65,536 begin (100 Mi - 64 Ki) / 1023 = 102,436 apart, so the third
// has token 205,000.
TEST(SameJob, ReadsPiecesOfMoreUpToTheLastToken) {
  constexpr std::int64_t tokens = 100LL << 20;
  for (const std::int64_t place : {std::int64_t{0}, std::int64_t{205'000}, tokens - 1}) {
    const TemporaryFolder folder;
    const auto texts = texts_of_jobs_that_differ_at(folder, tokens, place);
    EXPECT_NE(first_difference(texts), std::nullopt) << place;
  }
}

TEST(TokenBatch, TakesTheRowsOfTheRankInEveryMicroBatch) {
  const TemporaryFolder folder;
  const auto stream = counting_stream(folder, 200);
  // B = 2 * 2 = 4 rows of T = 3; step 1, micro-batches 2 and 3 of all: start 5 + 2*12 = 29 and 41;
  // rank 1 has rows 2 and 3, 6 tokens further.
  const BatchPlan plan{
      .token_start = 5, .batch = 2, .length = 3, .micro_batches = 2, .rank = 1, .ranks = 2};
  std::array<std::int32_t, 12> tokens{};
  std::array<std::int32_t, 12> targets{};
  read_step(stream, plan, 1, tokens, targets);
  EXPECT_THAT(tokens, ElementsAre(35, 36, 37, 38, 39, 40, 47, 48, 49, 50, 51, 52));
  EXPECT_THAT(targets, ElementsAre(36, 37, 38, 39, 40, 41, 48, 49, 50, 51, 52, 53));
}

TEST(TokenBatch, NeedsOneTokenMoreThanItsInputs) {
  const TemporaryFolder folder;
  const auto stream = counting_stream(folder, 12);
  const BatchPlan plan{.batch = 1, .length = 6, .ranks = 2};
  EXPECT_THAT(error_of([&] { require_usable(stream, plan, 1); }),
              testing::AllOf(HasSubstr("12 tokens"), HasSubstr("12 inputs")));
}

TEST(TokenBatch, NamesFileAndOffsetOfATokenOutsideTheVocabulary) {
  const TemporaryFolder folder;
  const auto first = folder.write("1.bin", uint16_bytes({1, 2, 3}));
  const auto second = folder.write("2.bin", uint16_bytes({4, 300, 5}));
  const auto stream = TokenStream::open({first, second}, TokenFormat::automatic);
  const BatchPlan plan{.batch = 1, .length = 4, .vocabulary = 300};
  EXPECT_THAT(
      error_of([&] { require_usable(stream, plan, 1); }),
      testing::AllOf(HasSubstr("2.bin"), HasSubstr("token 300 at offset 1"), HasSubstr("300")));
  std::array<std::int32_t, 4> tokens{};
  std::array<std::int32_t, 4> targets{};
  EXPECT_THAT(error_of([&] { read_step(stream, plan, 0, tokens, targets); }),
              HasSubstr("token 300"));
}

TEST(Encode, WritesBothFormatsSoThatTheyReadBack) {
  const TemporaryFolder folder;
  const auto text = folder.write("in.txt", "hi\xe9");
  for (const TokenFormat format : {TokenFormat::uint16, TokenFormat::llm_c}) {
    const auto out = folder.path() / "out.bin";
    EXPECT_EQ(encode({.text = {text}, .output = out, .format = format}).tokens, 3);
    EXPECT_EQ(std::filesystem::file_size(out), format == TokenFormat::llm_c ? 1024 + 6 : 6);
    EXPECT_THAT(all_of(TokenStream::open({out}, TokenFormat::automatic)),
                ElementsAre('h', 'i', 0xe9));
  }
}

}  // namespace
}  // namespace shardscope
