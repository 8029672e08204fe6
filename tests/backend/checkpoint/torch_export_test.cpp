// What we write for PyTorch's libraries, read back. tests/cli/dcp_check.py loads it with the
// libraries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "backend/checkpoint/foreign_reader.h"
#include "backend/checkpoint/random_states.h"
#include "backend/checkpoint/torch_export.h"
#include "backend/checkpoint/torch_files.h"
#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"
#include "tests/backend/train/temporary_folder.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const fs::path recorded_folder = fs::path(SOURCE_ROOT) / "tests/data/pytorch_checkpoints";

/// Three steps of a GPT-2 with 16 parameters, 6 of them matrices, as if a job of ours had saved
/// them.
class SavedByAJob final : public Checkpoint {
 public:
  explicit SavedByAJob(const std::string& job)
      : saved_(open_foreign(recorded_folder / "accelerate_fsdp1_sharded"),
               {.config = recorded_folder / "config.json", .next_token = 40}),
        index_(saved_.index()) {
    index_.job = job;
    index_.progress.loss = 2.5;
  }
  const fs::path& folder() const override { return saved_.folder(); }
  fs::path config() const override { return saved_.config(); }
  const CheckpointIndex& index() const override { return index_; }
  std::vector<Tensor> tensors() const override { return saved_.tensors(); }
  std::optional<Tensor> find(const std::string& name) const override { return saved_.find(name); }
  void read(const std::string& tensor, std::int64_t first, std::span<float> out) override {
    saved_.read(tensor, first, out);
  }

 private:
  ForeignReader saved_;
  CheckpointIndex index_;
};

// linear: 0.5 * (4 - 3) / (4 - 0) = 0.125 is the rate of the step behind the third.
constexpr const char* linear_job = R"({"model": "m", "data": "d", "steps": 4, "batch": 7,
  "lr": {"kind": "linear", "peak": 0.5},
  "optimizer": {"betas": [0.8, 0.9], "eps": 1e-6, "weight_decay": 0.25}})";

std::vector<float> values_of(Checkpoint& checkpoint, const Checkpoint::Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  checkpoint.read(tensor.name, 0, values);
  return values;
}

void expect_same(Checkpoint& ours, const fs::path& written) {
  ASSERT_TRUE(is_foreign_checkpoint(written));
  ForeignReader again(open_foreign(written),
                      {.config = recorded_folder / "config.json", .next_token = 40});
  EXPECT_EQ(again.index().progress.step, 3);
  EXPECT_EQ(again.tensors().size(), ours.tensors().size());
  for (const Checkpoint::Tensor& tensor : ours.tensors()) {
    ASSERT_TRUE(again.find(tensor.name)) << tensor.name;
    EXPECT_EQ(values_of(again, tensor), values_of(ours, tensor)) << tensor.name;
  }
}

struct Written {
  TorchLibrary library;
  TorchParallel parallel;
  std::vector<const char*> files;
};

class TorchExport : public ::testing::TestWithParam<Written> {
 protected:
  SavedByAJob saved_{linear_job};
  TemporaryFolder place_;
  fs::path written_ = place_.path() / "written";
};

TEST_P(TorchExport, HasEveryValueAndTheLibrarysFiles) {
  export_for_library(saved_,
                     {.library = GetParam().library, .parallel = GetParam().parallel, .world = 2},
                     written_);
  for (const char* file : GetParam().files) EXPECT_TRUE(is_there(written_ / file)) << file;
  expect_same(saved_, written_);
}

INSTANTIATE_TEST_SUITE_P(
    All, TorchExport,
    ::testing::Values(
        Written{TorchLibrary::accelerate,
                TorchParallel::fsdp,
                {"pytorch_model_fsdp_0/.metadata", "optimizer_0/.metadata", "scheduler.bin"}},
        Written{TorchLibrary::accelerate,
                TorchParallel::fsdp_full,
                {"pytorch_model_fsdp.bin", "optimizer.bin", "scheduler.bin"}},
        Written{TorchLibrary::accelerate,
                TorchParallel::ddp,
                {"model.safetensors", "optimizer.bin", "scheduler.bin"}},
        Written{TorchLibrary::trainer,
                TorchParallel::fsdp,
                {"pytorch_model_fsdp_0/.metadata", "optimizer_0/.metadata", "scheduler.pt",
                 "trainer_state.json"}},
        Written{TorchLibrary::trainer,
                TorchParallel::ddp,
                {"model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json"}}));

/// A file of torch.save, asked for by keys.
class Loaded {
 public:
  explicit Loaded(const fs::path& path) { files_.open(path); }
  const Pickle& pickle() const { return files_.pickle(0); }
  PickleValue at(PickleValue dict, const char* key) const {
    return pickle().find(dict, key).value();
  }
  PickleValue at(const char* key) const { return at(pickle().root(), key); }
  std::vector<double> reals(PickleValue list) const {
    std::vector<double> all;
    for (const PickleValue value : pickle().elements(list))
      all.push_back(pickle().real(value).value());
    return all;
  }

 private:
  TorchFiles files_;
};

TEST(TorchExportGroups, AreMatricesWhichDecayAndTheRest) {
  SavedByAJob saved(linear_job);
  const TemporaryFolder place;
  const fs::path written = place.path() / "written";
  export_for_library(saved, {.parallel = TorchParallel::ddp, .world = 2}, written);
  const Loaded optimizer(written / "optimizer.bin");
  const auto groups = optimizer.pickle().elements(optimizer.at("param_groups"));
  ASSERT_THAT(groups, SizeIs(2));
  // wte, wpe, c_attn, c_proj, c_fc, c_proj; numbers count on through the groups.
  EXPECT_THAT(optimizer.pickle().elements(optimizer.at(groups[0], "params")), SizeIs(6));
  const auto rest = optimizer.pickle().elements(optimizer.at(groups[1], "params"));
  ASSERT_THAT(rest, SizeIs(10));
  EXPECT_EQ(optimizer.pickle().integer(rest[0]), 6);
  EXPECT_EQ(optimizer.pickle().real(optimizer.at(groups[0], "weight_decay")), 0.25);
  EXPECT_EQ(optimizer.pickle().real(optimizer.at(groups[1], "weight_decay")), 0);
  for (const PickleValue group : groups) {
    EXPECT_EQ(optimizer.pickle().real(optimizer.at(group, "lr")), 0.125);
    EXPECT_EQ(optimizer.pickle().real(optimizer.at(group, "initial_lr")), 0.5);
    EXPECT_EQ(optimizer.pickle().real(optimizer.at(group, "eps")), 1e-6);
    EXPECT_THAT(optimizer.reals(optimizer.at(group, "betas")), ElementsAre(0.8, 0.9));
  }
}

TEST(TorchExportGroups, MayBeOne) {
  SavedByAJob saved(linear_job);
  const TemporaryFolder place;
  const fs::path written = place.path() / "written";
  export_for_library(saved, {.parallel = TorchParallel::ddp, .grouping = TorchGrouping::one},
                     written);
  const Loaded optimizer(written / "optimizer.bin");
  const auto groups = optimizer.pickle().elements(optimizer.at("param_groups"));
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_THAT(optimizer.pickle().elements(optimizer.at(groups[0], "params")), SizeIs(16));
  expect_same(saved, written);
}

TEST(TorchExportGroups, OfTheJobHaveTheirOwnRates) {
  // ln_f has two parameters, which decay as the group says, at twice the rate.
  std::string with_groups(linear_job);
  with_groups.insert(with_groups.find("\"betas\""),
                     R"("groups": [{"pattern": "ln_f", "rate": 2, "weight_decay": 0.5}], )");
  SavedByAJob saved(with_groups);
  const TemporaryFolder place;
  export_for_library(saved, {.parallel = TorchParallel::ddp}, place.path() / "written");
  const Loaded optimizer(place.path() / "written/optimizer.bin");
  const auto groups = optimizer.pickle().elements(optimizer.at("param_groups"));
  ASSERT_THAT(groups, SizeIs(3));
  EXPECT_THAT(optimizer.pickle().elements(optimizer.at(groups[2], "params")), SizeIs(2));
  EXPECT_EQ(optimizer.pickle().real(optimizer.at(groups[2], "lr")), 0.25);
  EXPECT_EQ(optimizer.pickle().real(optimizer.at(groups[2], "weight_decay")), 0.5);
  const Loaded schedule(place.path() / "written/scheduler.bin");
  EXPECT_THAT(schedule.reals(schedule.at("base_lrs")), ElementsAre(0.5, 0.5, 1.0));
  EXPECT_THROW(export_for_library(saved, {.grouping = TorchGrouping::one}, place.path() / "one"),
               Error);
}

// accelerate's schedule makes a step for each process, the Trainer's one.
TEST(TorchExportSchedule, HasMadeTheStepsThatTheLibraryCounts) {
  SavedByAJob saved(linear_job);
  const TemporaryFolder place;
  for (const auto& [library, file, steps] :
       {std::tuple{TorchLibrary::accelerate, "scheduler.bin", 6},
        std::tuple{TorchLibrary::trainer, "scheduler.pt", 3}}) {
    const fs::path written = place.path() / file;
    export_for_library(saved, {.library = library, .world = 2}, written);
    const Loaded schedule(written / file);
    EXPECT_EQ(schedule.pickle().integer(schedule.at("last_epoch")), steps);
    EXPECT_EQ(schedule.pickle().integer(schedule.at("_step_count")), steps + 1);
    EXPECT_THAT(schedule.reals(schedule.at("_last_lr")), ElementsAre(0.125, 0.125));
  }
  const JsonValue state = JsonValue::read_file(place.path() / "scheduler.pt/trainer_state.json");
  EXPECT_EQ(state.at("global_step").integer(), 3);
  EXPECT_EQ(state.at("train_batch_size").integer(), 7);
  EXPECT_EQ(state.at("log_history")[0].at("loss").number(), 2.5);
}

/// The files of random states of `world` processes.
std::vector<std::string> random_states_of(TorchLibrary library, int world) {
  SavedByAJob saved(linear_job);
  const TemporaryFolder place;
  export_for_library(saved, {.library = library, .parallel = TorchParallel::ddp, .world = world},
                     place.path() / "written");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(place.path() / "written"))
    if (std::string name = entry.path().filename(); name.starts_with("r")) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

TEST(TorchExportRandomStates, AreOneAProcess) {
  EXPECT_THAT(random_states_of(TorchLibrary::accelerate, 2),
              ElementsAre("random_states_0.pkl", "random_states_1.pkl"));
  EXPECT_THAT(random_states_of(TorchLibrary::trainer, 2),
              ElementsAre("rng_state_0.pth", "rng_state_1.pth"));
  EXPECT_THAT(random_states_of(TorchLibrary::trainer, 1), ElementsAre("rng_state.pth"));
}

// The job's seed is 1, and three steps are done. The numbers are what Python 3.11, NumPy 2 and
// torch 2.15 have after random.seed(4), numpy.random.seed(4) and torch.manual_seed(4).
TEST(TorchExportRandomStates, AreThoseOfASeedThatGoesOnWithTheSteps) {
  SavedByAJob saved(linear_job);
  const TemporaryFolder place;
  const fs::path written = place.path() / "written";
  export_for_library(saved, {.library = TorchLibrary::trainer, .world = 2}, written);
  const Loaded states(written / "rng_state_1.pth");
  const Pickle& pickle = states.pickle();
  const auto python = pickle.elements(pickle.elements(states.at("python"))[1]);
  ASSERT_THAT(python, SizeIs(625));
  for (const auto& [at, word] :
       {std::pair{0, 2147483648}, std::pair{1, 2482047965}, std::pair{2, 3950236897},
        std::pair{623, 4253574870}, std::pair{624, std::int64_t{624}}})
    EXPECT_EQ(pickle.integer(python[static_cast<std::size_t>(at)]), word) << at;
  EXPECT_EQ(pickle.elements(states.at("cuda")).size(), 2u);

  const RandomStates seeded = seeded_random_states(4, 1);
  ASSERT_THAT(seeded.storages, SizeIs(2));
  ASSERT_EQ(seeded.storages[0].size(), 5056u);
  const auto cpu_word = [&](std::size_t at) {
    std::uint64_t word = 0;
    std::memcpy(&word, seeded.storages[0].data() + 24 + 8 * at, sizeof word);
    return word;
  };
  EXPECT_EQ(cpu_word(0), 4u);
  EXPECT_EQ(cpu_word(1), 2954765717u);
  EXPECT_EQ(cpu_word(623), 2443859996u);
  EXPECT_EQ(seeded.storages[1], std::string("\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16));
  // 4 and 2954765717 = 0xb01e2595, little-endian, each byte as UTF-8 has the character of its
  // number.
  EXPECT_THAT(seeded.numpy, HasSubstr(std::string("\4\0\0\0\xc2\x95%\x1e\xc2\xb0", 10)));
}

TEST(TorchExportOfOthers, IsRefusedSinceSettingsAreNotKnown) {
  SavedByAJob saved("{}");
  const TemporaryFolder place;
  try {
    export_for_library(saved, {}, place.path() / "written");
    FAIL() << "was written";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("does not say the optimizer's settings"));
  }
  EXPECT_FALSE(is_there(place.path() / "written"));
}

}  // namespace
}  // namespace shardscope
