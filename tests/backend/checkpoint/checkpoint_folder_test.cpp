#include "backend/checkpoint/checkpoint_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "backend/checkpoint/checkpoint_reader.h"
#include "backend/checkpoint/checkpoint_writer.h"
#include "backend/checkpoint/checksum.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "tests/backend/train/temporary_folder.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Two files with a tensor of 6 numbers, 0 to 3 in one and 4 to 5 in the other.
fs::path write_checkpoint(const fs::path& checkpoints, std::int64_t step) {
  const fs::path folder = checkpoints / checkpoint_name(step);
  create_folder(folder);
  const std::vector<float> values{0, 1, 2, 3, 4, 5};
  const auto piece = [&](std::int64_t first, std::int64_t elements) {
    return std::vector<TensorToWrite>{
        {.key = {.key = "parameters/w",
                 .pieces = {{.tensor = "parameters/w",
                             .shape = {2, 3},
                             .first = first,
                             .elements = elements}}},
         .shape = {elements},
         .bytes = std::as_bytes(std::span(values).subspan(static_cast<std::size_t>(first),
                                                          static_cast<std::size_t>(elements)))}};
  };
  CheckpointIndex index{.progress = {.step = step, .next_token = 7, .loss = 0.1}, .job = "{}"};
  index.files = {write_shard_file(folder, shard_file_name(0, 2), piece(0, 4)),
                 write_shard_file(folder, shard_file_name(1, 2), piece(4, 2))};
  write_atomically(folder / checkpoint_index_name, to_json(index));
  return folder;
}

void flip_bit(const fs::path& file, std::int64_t byte) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(byte);
  const int old = stream.get();
  stream.seekp(byte);
  stream.put(static_cast<char>(old ^ 4));
}

class CheckpointFolder : public ::testing::Test {
 protected:
  std::vector<std::string> passed_over_;
  TemporaryFolder place_;
};

TEST_F(CheckpointFolder, NamesCarryTheStep) {
  EXPECT_EQ(checkpoint_name(50), "step-00000050");
  EXPECT_EQ(step_of_name("step-00000050"), 50);
  EXPECT_EQ(step_of_name("step-123456789"), 123456789);
  for (const char* other :
       {"step-50", "step-0000005x", ".step-00000050.1.partial", "step--0000050"})
    EXPECT_EQ(step_of_name(other), std::nullopt) << other;
}

TEST_F(CheckpointFolder, KeepsTheNewestAndTheMultiples) {
  const std::vector<std::int64_t> steps{40, 10, 30, 20};
  EXPECT_THAT(steps_to_remove(steps, {.keep = 2, .keep_every = 20}), ElementsAre(10));
  EXPECT_THAT(steps_to_remove(steps, {.keep = 1}), ElementsAre(10, 20, 30));
  EXPECT_THAT(steps_to_remove(steps, {.keep = 0}), IsEmpty());
  EXPECT_THAT(steps_to_remove({10}, {.keep = 3}), IsEmpty());
}

TEST_F(CheckpointFolder, ReadsAcrossFiles) {
  CheckpointReader reader(write_checkpoint(place_.path(), 10));
  std::vector<float> values(3);
  reader.read("parameters/w", 2, values);
  EXPECT_THAT(values, ElementsAre(2, 3, 4));
  EXPECT_THAT(reader.verify(2), IsEmpty());
  EXPECT_EQ(reader.index().progress.next_token, 7);
  EXPECT_THROW(reader.read("parameters/w", 5, values), Error);
  EXPECT_THROW(reader.read("parameters/v", 0, values), Error);
}

TEST_F(CheckpointFolder, TheIndexReadsBackAsItWas) {
  const fs::path folder = write_checkpoint(place_.path(), 10);
  const CheckpointIndex index = read_checkpoint_index(folder);
  write_atomically(folder / checkpoint_index_name, to_json(index));
  EXPECT_EQ(read_checkpoint_index(folder), index);
  EXPECT_EQ(index.files[1].keys[0].pieces[0].first, 4);
}

TEST_F(CheckpointFolder, EveryFlippedBitOfTheIndexIsFound) {
  const fs::path folder = write_checkpoint(place_.path(), 10);
  const fs::path index = folder / checkpoint_index_name;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(index));
  for (std::int64_t byte = 0; byte < bytes; ++byte) {
    flip_bit(index, byte);
    EXPECT_NE(why_not_whole(folder), std::nullopt) << "byte " << byte;
    flip_bit(index, byte);
  }
  EXPECT_EQ(why_not_whole(folder), std::nullopt);
}

TEST_F(CheckpointFolder, AFlippedBitOfATensorIsFoundWhenItIsRead) {
  const fs::path folder = write_checkpoint(place_.path(), 10);
  const fs::path file = folder / shard_file_name(1, 2);
  flip_bit(file, static_cast<std::int64_t>(fs::file_size(file)) - 2);
  EXPECT_EQ(why_not_whole(folder), std::nullopt) << "tensors are not read for that";
  CheckpointReader reader(folder);
  EXPECT_THAT(reader.verify(2), ElementsAre(HasSubstr("parameters/w in shard-00001-of-00002")));
  std::vector<float> values(2);
  reader.read("parameters/w", 0, values);  // of the other file
  EXPECT_THROW(reader.read("parameters/w", 4, values), Error);
}

// 40 MB are three stretches of at most 16 MiB: the first and the last are damaged.
TEST_F(CheckpointFolder, EachDamagedStretchOfALargeTensorIsFoundOnAnyNumberOfThreads) {
  constexpr std::int64_t elements = 10'000'000, bytes = 4 * elements;
  const fs::path folder = place_.path() / checkpoint_name(10);
  create_folder(folder);
  const std::vector<float> values(static_cast<std::size_t>(elements), 1.5F);
  const std::vector<TensorToWrite> tensors{
      {.key = {.key = "w",
               .pieces = {{.tensor = "w", .shape = {elements}, .first = 0, .elements = elements}}},
       .shape = {elements},
       .bytes = std::as_bytes(std::span(values))}};
  CheckpointIndex index{.progress = {.step = 10, .next_token = 7, .loss = 0.1}, .job = "{}"};
  const fs::path file = folder / shard_file_name(0, 1);
  index.files = {write_shard_file(folder, shard_file_name(0, 1), tensors)};
  write_atomically(folder / checkpoint_index_name, to_json(index));
  EXPECT_THAT(CheckpointReader(folder).verify(3), IsEmpty());
  const auto end = static_cast<std::int64_t>(fs::file_size(file));
  flip_bit(file, end - bytes);
  flip_bit(file, end - 1);
  const std::int64_t last_chunk = (bytes - 1) / checksum_chunk * checksum_chunk;
  for (const int threads : {1, 2, 8})
    EXPECT_THAT(CheckpointReader(folder).verify(threads),
                ElementsAre(HasSubstr("is damaged after byte 0:"),
                            HasSubstr(fmt::format("is damaged after byte {}:", last_chunk))))
        << threads;
}

TEST_F(CheckpointFolder, TheNewestWholeOneIsFound) {
  write_checkpoint(place_.path(), 10);
  const fs::path truncated = write_checkpoint(place_.path(), 20) / shard_file_name(0, 2);
  fs::resize_file(truncated, fs::file_size(truncated) - 1);
  fs::create_directories(place_.path() / checkpoint_name(30));
  const auto newest = newest_whole(place_.path(), passed_over_);
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, 10);
  EXPECT_THAT(passed_over_, ElementsAre(HasSubstr("step-00000030"), HasSubstr("bytes")));
}

TEST_F(CheckpointFolder, APieceThatIsMissingIsAFault) {
  const fs::path folder = write_checkpoint(place_.path(), 10);
  CheckpointIndex index = read_checkpoint_index(folder);
  index.files.pop_back();
  write_atomically(folder / checkpoint_index_name, to_json(index));
  EXPECT_THAT(CheckpointReader(folder).verify(2),
              ElementsAre(HasSubstr("element 4 of parameters/w")));
}

TEST_F(CheckpointFolder, ANewCheckpointOfAStepReplacesTheOlder) {
  write_checkpoint(place_.path(), 10);
  const fs::path other = place_.path() / partial_name(10, "x");
  fs::rename(write_checkpoint(place_.path() / "other", 10), other);
  place_.write((other / "mark").lexically_relative(place_.path()).string(), "new");
  put_in_place(other, place_.path() / checkpoint_name(10));
  EXPECT_TRUE(fs::exists(place_.path() / checkpoint_name(10) / "mark"));
  EXPECT_FALSE(fs::exists(other));
}

TEST_F(CheckpointFolder, ACheckpointOfTheRunIsKnownByAnyPath) {
  const fs::path checkpoints = place_.path() / "checkpoints";
  const fs::path own = write_checkpoint(checkpoints, 20);
  const fs::path elsewhere = write_checkpoint(place_.path() / "other", 20);
  const fs::path aside = checkpoints / "set-aside-step-00000030";
  fs::rename(write_checkpoint(checkpoints, 30), aside);
  const fs::path link = checkpoints / "best";
  fs::create_directory_symlink(own, link);
  for (const fs::path& path : {own, own / "", own / ".." / checkpoint_name(20), link})
    EXPECT_EQ(step_among(checkpoints, path), 20) << path;
  for (const fs::path& path : {elsewhere, aside, checkpoints / checkpoint_name(40), fs::path()})
    EXPECT_EQ(step_among(checkpoints, path), std::nullopt) << path;
}

TEST_F(CheckpointFolder, WhatARunDoesNotFollowIsSetAside) {
  const auto renamed = [&](const char* name, const char* to) {
    return SetAside{.from = place_.path() / name, .to = place_.path() / to};
  };
  for (const int step : {10, 20, 30}) write_checkpoint(place_.path(), step);
  EXPECT_THAT(set_aside_later(place_.path(), 20),
              ElementsAre(renamed("step-00000030", "set-aside-step-00000030")));
  EXPECT_EQ(why_not_whole(place_.path() / "set-aside-step-00000030"), std::nullopt);
  write_checkpoint(place_.path(), 30);
  EXPECT_THAT(set_aside_later(place_.path(), 10),
              ElementsAre(renamed("step-00000020", "set-aside-step-00000020"),
                          renamed("step-00000030", "set-aside-step-00000030.2")));
  EXPECT_EQ(newest_whole(place_.path(), passed_over_)->step, 10);
  EXPECT_THAT(set_aside_later(place_.path(), 10), ::testing::IsEmpty());
  EXPECT_THAT(set_aside_later(place_.path(), -1),
              ElementsAre(renamed("step-00000010", "set-aside-step-00000010")));
}

TEST_F(CheckpointFolder, WhatWasSetAsideIsPutBack) {
  for (const int step : {10, 20, 30}) write_checkpoint(place_.path(), step);
  const std::vector<NamedCheckpoint> before = named_checkpoints(place_.path());
  put_back(set_aside_later(place_.path(), 10));
  EXPECT_EQ(named_checkpoints(place_.path()), before);
  EXPECT_EQ(newest_whole(place_.path(), passed_over_)->step, 30);
}

TEST_F(CheckpointFolder, WhatAnInterruptedSaveLeftIsRemovedAlone) {
  write_checkpoint(place_.path(), 10);
  fs::create_directories(place_.path() / partial_name(20, "1-2"));
  place_.write("notes.partial", "mine");
  remove_partial(place_.path());
  EXPECT_FALSE(fs::exists(place_.path() / partial_name(20, "1-2")));
  EXPECT_TRUE(fs::exists(place_.path() / "notes.partial"));
  EXPECT_EQ(named_checkpoints(place_.path()).size(), 1u);
}

TEST_F(CheckpointFolder, APartThatDoesNotComeIsNamed) {
  const auto why = [&](std::chrono::milliseconds limit, std::optional<std::string> failure) {
    try {
      wait_for_shard_files(place_.path(), 2, limit, [&] { return failure; });
      return std::string("it came");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(why(std::chrono::minutes(10), "rank 1: the disk is full"),
              HasSubstr("rank 1: the disk is full"));
  EXPECT_THAT(why(std::chrono::milliseconds(1), std::nullopt),
              HasSubstr("the parts of ranks 0, 1 did not come within 1 ms"));
}

}  // namespace
}  // namespace shardscope
