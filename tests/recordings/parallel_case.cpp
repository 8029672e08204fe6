#include <fmt/format.h>

#include "core/base/error.h"
#include "core/model/huggingface.h"
#include "core/pytorch/engine/models/make_module.h"
#include "tests/recordings/parallel.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace eager::parallel;

Dtype dtype_of(const std::string& name) {
  return name == "bf16" ? Dtype::bfloat16 : Dtype::float32;
}

eager::fsdp2::MixedPrecisionPolicy precision_of(const Json& mp) {
  if (mp.is_null()) return {};
  if (mp == "bf16") return {.param_dtype = Dtype::bfloat16};
  return {.param_dtype = Dtype::bfloat16, .reduce_dtype = Dtype::float32};
}

eager::OptimizerSettings optimizer_of(const std::string& name) {
  using enum eager::OptimizerImplementation;
  const bool sgd = name.starts_with("sgd");
  return {.rule = sgd ? eager::OptimizerRule::sgd : eager::OptimizerRule::adamw,
          .implementation = name.ends_with("fused")     ? fused
                            : name.ends_with("forloop") ? loop
                                                        : foreach,
          .weight_decay = !sgd};
}

LlamaShape shape_of(const Json& changes) {
  Json m{{"dim", 256}, {"layers", 2}, {"heads", 8}, {"kv", 4}, {"hidden", 512}, {"vocab", 1024}};
  m.update(changes);
  return {.dim = m.at("dim"),
          .layers = m.at("layers"),
          .heads = m.at("heads"),
          .kv_heads = m.at("kv"),
          .hidden = m.at("hidden"),
          .vocab = m.at("vocab")};
}

std::vector<MeshAxis> axes_of(const Json& mesh) {
  std::vector<MeshAxis> axes;
  for (const auto& [name, size] : mesh.items())
    if (!name.starts_with("ep")) axes.push_back({name, size.get<int>()});
  return axes;
}

Float8Settings float8_of(const Json& given) {
  if (given.is_null()) return {};
  const bool rows = given.at("recipe") == "rowwise";
  return {.recipe = rows ? Float8Recipe::rowwise : Float8Recipe::tensorwise,
          .fsdp_all_gather = given.value("fsdp_all_gather", false),
          .precompute_scale = given.value("precompute_scale", false)};
}

/// hf_llama of record.py.
JsonValue transformers_config(const LlamaShape& shape) {
  const Json spec{{"model_type", "llama"},
                  {"architectures", {"LlamaForCausalLM"}},
                  {"vocab_size", shape.vocab},
                  {"hidden_size", shape.dim},
                  {"intermediate_size", shape.hidden},
                  {"num_hidden_layers", shape.layers},
                  {"num_attention_heads", shape.heads},
                  {"num_key_value_heads", shape.kv_heads},
                  {"tie_word_embeddings", false},
                  {"use_cache", false}};
  return JsonValue::parse(spec.dump(), "config");
}

Model transformers_llama(const LlamaShape& shape, Dtype dtype) {
  return model_of_config(transformers_config(shape),
                         {.class_name = "LlamaForCausalLM", .dtype = dtype});
}

[[noreturn]] void not_expressed(const std::string& what) {
  throw Error({.where = "case", .what = what + " is not expressed here", .way_out = {}});
}

}  // namespace

Json with_parallel_defaults(const Json& given) {
  Json all{{"ranks", Json::array({0})},
           {"mesh", Json::object()},
           {"plan", "plain"},
           {"model", Json::object()},
           {"B", 2},
           {"T", 64},
           {"param_dtype", "fp32"},
           {"mp", nullptr},
           {"sp", false},
           {"loss_parallel", false},
           {"embedding", "rowwise"},
           {"ac", false},
           {"optimizer", "adamw_fused"},
           {"clip", nullptr},
           {"reshard", true},
           {"rotate", nullptr},
           {"load_balance", true},
           {"schedule", nullptr},
           {"microbatches", 4},
           {"stages", 1},
           {"ddp", false},
           {"options", Json::object()},
           {"float8", nullptr},
           {"experts", 0},
           {"top_k", 2}};
  all.update(given);
  return all;
}

ParallelSettings parallel_settings(const Json& c) {
  const Json& schedule = c.at("schedule");
  if (!c.at("options").empty()) not_expressed("a schedule with options");
  const LlamaShape shape = shape_of(c.at("model"));
  const Dtype dtype = dtype_of(c.at("param_dtype"));
  std::function<std::shared_ptr<eager::Module>(eager::Session&)> transformers_model;
  std::vector<TensorRule> transformers_plan;
  if (c.at("plan") == "transformers") {
    const Model model = transformers_llama(shape, dtype);
    transformers_plan = tensor_plan_of(model);
    transformers_model = [=](eager::Session& meta) {
      return eager::make_module(meta, model, transformers_config(shape),
                                eager::usual_settings(model));
    };
  }
  return {.shape = shape,
          .transformers_model = transformers_model,
          .transformers_plan = transformers_plan,
          .mesh = axes_of(c.at("mesh")),
          .batch = c.at("B"),
          .length = c.at("T"),
          .dtype = dtype,
          .mixed_precision = precision_of(c.at("mp")),
          .sequence_parallel = c.at("sp"),
          .loss_parallel = c.at("loss_parallel"),
          .embedding =
              c.at("embedding") == "colwise" ? EmbeddingStyle::colwise : EmbeddingStyle::rowwise,
          .checkpoint_every = c.at("ac").get<bool>() ? 1 : 0,
          .reshard_after_forward = c.at("reshard"),
          .ring = {.rotate = c.at("rotate") == "alltoall" ? RotateMethod::all_to_all
                                                          : RotateMethod::all_gather,
                   .load_balance = c.at("load_balance")},
          .experts = {.experts = c.at("experts"),
                      .top_k = c.at("top_k"),
                      .ranks = c.at("mesh").value("ep", 1),
                      .shards = c.at("mesh").value("ep_shard", 1)},
          .float8 = float8_of(c.at("float8")),
          .float8_tensor_parallel = c.at("float8").is_object() && c.at("float8").value("tp", false),
          .optimizer = optimizer_of(c.at("optimizer")),
          .clips = !c.at("clip").is_null(),
          .micro_batches = schedule.is_null() ? 1 : c.at("microbatches").get<int>(),
          .schedule = schedule.is_null()
                          ? PipelineScheduleKind::gpipe
                          : parse_pipeline_schedule(schedule.get<std::string>(), "case"),
          .stages_per_rank = c.at("stages").get<int>()};
}

}  // namespace shardscope::recordings
