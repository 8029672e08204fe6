#include "core/model/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/format/atomic_file.h"
#include "core/model/checkpoint_files.h"
#include "core/model/config_text.h"
#include "core/model/huggingface.h"
#include "core/model/model_weights.h"
#include "core/model/read_model.h"
#include "tests/core/complaint.h"
#include "tests/core/temporary_folder.h"

namespace shardscope {
namespace {

using testing::HasSubstr;

JsonValue config(std::string_view more = "") {
  std::string text =
      R"({"model_type": "gpt2", "vocab_size": 11, "n_positions": 5, "n_embd": 6, "n_layer": 1, "n_head": 2)";
  return JsonValue::parse(text + std::string(more) + "}", "config.json");
}

/// Element i of parameter p has the value 1000 p + i.
void numbered(ParameterId parameter, std::int64_t first, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = 1000.0f * static_cast<float>(parameter.value) + static_cast<float>(first) +
             static_cast<float>(i);
}

TEST(ModelFolder, WhatWasWrittenReadsBack) {
  const TemporaryFolder folder;
  const Model model = model_of_config(config());
  write_model_folder(folder.path() / "model", model, config(), numbered);
  const Model again = read_model(folder.path() / "model");
  EXPECT_EQ(again.parameters, model.parameters);
  const ModelWeights weights(folder.path() / "model", again);
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    std::vector<float> got(static_cast<std::size_t>(model.parameters[p].elements() - 1)),
        expected(got.size());
    weights.read(ParameterId::of(p), 1, got);
    numbered(ParameterId::of(p), 1, expected);
    EXPECT_EQ(got, expected) << model.parameters[p].name;
  }
}

TEST(ModelFolder, ATiedHeadIsNotWritten) {
  const TemporaryFolder folder;
  write_model_folder(folder.path(), model_of_config(config()), config(), numbered);
  const SafetensorsFile file(folder.path() / "model.safetensors");
  EXPECT_EQ(file.find("lm_head.weight"), nullptr);
  EXPECT_NE(file.find("transformer.wte.weight"), nullptr);
}

TEST(ModelFolder, WeightsAndConfigAreFloat32) {
  const TemporaryFolder folder;
  const JsonValue half = config(R"(, "torch_dtype": "bfloat16")");
  write_model_folder(folder.path(), model_of_config(half), half, numbered);
  EXPECT_EQ(SafetensorsFile(folder.path() / "model.safetensors").header().tensors[0].dtype,
            Dtype::float32);
  EXPECT_EQ(read_model(folder.path()).dtype, Dtype::float32);
}

TEST(ModelFolder, PiecesAreThoseThatAreAskedFor) {
  const TemporaryFolder folder;
  const Model model = model_of_config(config());
  std::vector<ParameterPiece> asked;
  write_model_folder(folder.path(), model, config(),
                     [&](ParameterId p, std::int64_t first, std::span<float> out) {
                       asked.push_back({p, first, static_cast<std::int64_t>(out.size())});
                     });
  EXPECT_EQ(asked, pieces_to_write(model));
}

TEST(CheckpointFiles, FillUpInOrderAndALargeTensorStandsAlone) {
  // In bytes: wte 264, wpe 120, ln_1 24 24, c_attn 432 72, c_proj 144 24, ln_2 24 24, c_fc 576 96,
  // c_proj 576 24, ln_f 24 24
  const Model model = model_of_config(config());
  const CheckpointFiles checkpoint = checkpoint_files(model, Bytes{500});
  std::vector<std::int64_t> bytes;
  for (const CheckpointFile& file : checkpoint.files)
    bytes.push_back(file.header.file_bytes - file.header.data_begin);
  // wte + wpe + ln_1 = 432; c_attn.weight = 432; its bias and on to ln_2 = 288; 576 alone; 288 + 96
  // = 384 goes on behind it; 576 alone; 384 + 24 + 24 + 24 = 456
  EXPECT_EQ(bytes, (std::vector<std::int64_t>{432, 432, 576, 576, 456}));
  EXPECT_EQ(checkpoint.files[0].name, "model-00001-of-00005.safetensors");
  EXPECT_THAT(checkpoint.index,
              HasSubstr("\"transformer.wte.weight\": \"model-00001-of-00005.safetensors\""));
  EXPECT_TRUE(checkpoint_files(model).index.empty());
}

class ModelWeightsTest : public testing::Test {
 protected:
  void write(std::vector<SafetensorsTensor> tensors) {
    const SafetensorsHeader header = safetensors_header(std::move(tensors), {});
    SafetensorsWriter writer(folder_.path() / "model.safetensors", header);
    const std::vector<std::byte> zeros(
        static_cast<std::size_t>(header.file_bytes - header.data_begin));
    writer.write(zeros);
    writer.commit();
  }
  std::vector<SafetensorsTensor> tensors() const {
    std::vector<SafetensorsTensor> result;
    for (const Parameter& p : model_.parameters)
      result.push_back({.name = p.name, .shape = p.shape});
    return result;
  }
  std::string complaint() const {
    return complaint_of([&] { ModelWeights weights(folder_.path(), model_); });
  }

  TemporaryFolder folder_;
  Model model_ = model_of_config(config());
};

TEST_F(ModelWeightsTest, NamesOfTheBaseModelAreUnderstood) {
  auto all = tensors();
  for (SafetensorsTensor& tensor : all)
    tensor.name = tensor.name.substr(std::string("transformer.").size());
  all.push_back({.name = "h.0.attn.bias",
                 .dtype = Dtype::uint8,
                 .shape = {1, 1, 5, 5}});  // older files hold masks
  write(all);
  EXPECT_EQ(complaint(), "no complaint");
}

TEST_F(ModelWeightsTest, AMissingTensorOrAnotherShapeIsNamed) {
  auto all = tensors();
  all.pop_back();
  write(all);
  EXPECT_THAT(complaint(), HasSubstr("the weights of transformer.ln_f.bias are missing"));
  all = tensors();
  all[0].shape = {11, 7};
  write(all);
  EXPECT_THAT(
      complaint(),
      HasSubstr("model.safetensors: tensor transformer.wte.weight has shape [11, 7], the model's "
                "config needs [11, 6]"));
}

TEST_F(ModelWeightsTest, AFolderWithoutWeightsIsNamed) {
  EXPECT_THAT(complaint(), HasSubstr("holds neither model.safetensors nor"));
}

TEST_F(ModelWeightsTest, AnIndexNamesFilesBesideIt) {
  folder_.write("model.safetensors.index.json",
                R"({"weight_map": {"a": "../secret.safetensors"}})");
  EXPECT_THAT(complaint(), HasSubstr("weight_map.a: expected a file name without a folder"));
}

TEST(ConfigText, OlderKeysAreRenamedAndFolded) {
  const JsonValue given = JsonValue::parse(
      R"({"model_type": "llama", "torch_dtype": "bfloat16", "rope_theta": 500000.0, "num_labels": 3, "my_key": [1],
          "return_dict": true})",
      "config.json");
  const JsonValue written = JsonValue::parse(config_text(given, model_of_config(given)), "written");
  EXPECT_EQ(written.at("dtype").string(), "bfloat16");
  EXPECT_EQ(written.at("rope_parameters").dump(),
            R"({"rope_theta":500000.0,"rope_type":"default"})");
  EXPECT_EQ(written.at("id2label").dump(), R"({"0":"LABEL_0","1":"LABEL_1","2":"LABEL_2"})");
  EXPECT_EQ(written.at("my_key").dump(), "[1]");
  EXPECT_EQ(written.at("head_dim").integer(), 128);
  for (const char* gone : {"torch_dtype", "rope_theta", "num_labels", "return_dict"})
    EXPECT_FALSE(written.has(gone));
}

}  // namespace
}  // namespace shardscope
