#include "core/model/tensor_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/format/safetensors.h"
#include "core/model/read_model.h"
#include "tests/core/complaint.h"
#include "tests/core/temporary_folder.h"

namespace shardscope {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The first bytes of a file with three layers' weights, as a download of its header leaves them.
std::string three_layers() {
  return header_bytes(safetensors_header({{.name = "h.10.weight", .shape = {2, 3}},
                                          {.name = "h.2.weight", .shape = {2, 3}},
                                          {.name = "h.2.bias", .shape = {2}},
                                          {.name = "steps", .dtype = Dtype::int64, .shape = {1}}},
                                         {}));
}

std::vector<std::string> names(const std::vector<Parameter>& parameters) {
  std::vector<std::string> result;
  for (const Parameter& parameter : parameters) result.push_back(parameter.name);
  return result;
}

TEST(TensorFiles, AHeaderAloneGivesParametersAndModules) {
  const TemporaryFolder folder;
  const Model model = read_model(folder.write("model.safetensors", three_layers()));
  EXPECT_THAT(names(model.parameters), ElementsAre("h.2.weight", "h.2.bias", "h.10.weight"));
  EXPECT_EQ(model.parameters[0].shape, (Shape{2, 3}));
  std::vector<std::string> modules;
  for (const Module& module : model.modules) modules.push_back(module.name);
  EXPECT_THAT(modules, ElementsAre("", "h", "h.2", "h.10"));
  EXPECT_EQ(model.modules[2].class_name, "");
  EXPECT_EQ(model.buffers.size(), 1u);
}

TEST(TensorFiles, TheHeadersTextAloneIsEnough) {
  const std::string text = three_layers().substr(8);
  EXPECT_EQ(names(model_of_json(text, "header.json").parameters).size(), 3u);
}

TEST(TensorFiles, AFolderWithoutAConfigIsItsTensorFiles) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", three_layers());
  EXPECT_EQ(names(read_model(folder.path()).parameters).size(), 3u);
}

TEST(TensorFiles, AnIndexTakesShapesFromTheFilesBesideIt) {
  const TemporaryFolder folder;
  folder.write("a.safetensors", three_layers());
  folder.write(
      "model.safetensors.index.json",
      R"({"weight_map": {"h.2.weight": "a.safetensors", "h.10.weight": "a.safetensors"}})");
  EXPECT_EQ(read_model(folder.path()).parameter_elements(), 14);
}

TEST(TensorFiles, AnIndexAloneSaysWhatIsMissing) {
  const TemporaryFolder folder;
  const auto path = folder.write("model.safetensors.index.json",
                                 R"({"weight_map": {"w": "a.safetensors", "b": "b.safetensors"}})");
  EXPECT_THAT(complaint_of([&] { read_model(path); }),
              HasSubstr("names 2 tensors but not their shapes, and 2 of their 2 files are missing "
                        "beside it: a.safetensors, ...; put the model's config.json beside it"));
}

TEST(TensorFiles, ABrokenHeaderIsToldAsSuch) {
  const TemporaryFolder folder;
  EXPECT_THAT(complaint_of([&] { read_model(folder.write("m.safetensors", "abc")); }),
              HasSubstr("has 3 bytes, too few for a safetensors file"));
}

TEST(TensorFiles, PicklesAreRefusedWithAWayOut) {
  const TemporaryFolder folder;
  folder.write("pytorch_model.bin.index.json", R"({"weight_map": {"w": "pytorch_model.bin"}})");
  EXPECT_THAT(complaint_of([&] { read_model(folder.path()); }),
              HasSubstr("pickle of PyTorch, which is not read; save_pretrained"));
  const auto file = folder.write("model.pt", std::string("PK\x03\x04 and so on and on"));
  EXPECT_THAT(complaint_of([&] { read_model(file); }), HasSubstr("export_model.py"));
}

TEST(TensorFiles, NamesWithEmptyPartsAreRefused) {
  const std::string text = header_bytes(safetensors_header({{.name = "a..b", .shape = {1}}}, {}));
  EXPECT_THAT(complaint_of([&] { model_of_json(text.substr(8), "h"); }), HasSubstr("empty part"));
}

}  // namespace
}  // namespace shardscope
