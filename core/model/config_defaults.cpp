#include "core/model/config_defaults.h"

#include <algorithm>
#include <iterator>

namespace shardscope {
namespace {

constexpr std::string_view defaults_5 = R"({
  "chunk_size_feed_forward": 0, "id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "is_encoder_decoder": false,
  "label2id": {"LABEL_0": 0, "LABEL_1": 1}, "output_attentions": false, "output_hidden_states": false,
  "problem_type": null, "return_dict": true})";

constexpr std::string_view defaults_4 = R"({
  "add_cross_attention": false, "bad_words_ids": null, "begin_suppress_tokens": null, "bos_token_id": null,
  "chunk_size_feed_forward": 0, "cross_attention_hidden_size": null, "decoder_start_token_id": null,
  "diversity_penalty": 0.0, "do_sample": false, "early_stopping": false, "encoder_no_repeat_ngram_size": 0,
  "eos_token_id": null, "exponential_decay_length_penalty": null, "finetuning_task": null,
  "forced_bos_token_id": null, "forced_eos_token_id": null, "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
  "is_decoder": false, "is_encoder_decoder": false, "label2id": {"LABEL_0": 0, "LABEL_1": 1}, "length_penalty": 1.0,
  "max_length": 20, "min_length": 0, "no_repeat_ngram_size": 0, "num_beam_groups": 1, "num_beams": 1,
  "num_return_sequences": 1, "output_attentions": false, "output_hidden_states": false, "output_scores": false,
  "pad_token_id": null, "prefix": null, "problem_type": null, "pruned_heads": {}, "remove_invalid_values": false,
  "repetition_penalty": 1.0, "return_dict": true, "return_dict_in_generate": false, "sep_token_id": null,
  "suppress_tokens": null, "task_specific_params": null, "temperature": 1.0, "tf_legacy_loss": false,
  "tie_encoder_decoder": false, "tie_word_embeddings": true, "tokenizer_class": null, "top_k": 50, "top_p": 1.0,
  "torchscript": false, "typical_p": 1.0, "use_bfloat16": false})";

/// Source: GenerationConfig._get_default_generation_params,
/// generation/configuration_utils.py, 5.23.
constexpr std::string_view generation_keys[] = {
    "assistant_confidence_threshold",
    "assistant_lookbehind",
    "bad_words_ids",
    "begin_suppress_tokens",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "epsilon_cutoff",
    "eta_cutoff",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_scores",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict_in_generate",
    "suppress_tokens",
    "target_lookbehind",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "use_cache",
};

/// Popped while reading, left out when written, or written anew.
constexpr std::string_view internal_keys[] = {
    "_attn_implementation_internal",
    "_auto_class",
    "_commit_hash",
    "_experts_implementation_internal",
    "_is_quantized",
    "_name_or_path",
    "architectures",
    "attn_implementation",
    "base_model_pp_plan",
    "base_model_tp_plan",
    "dtype",
    "experts_implementation",
    "model_type",
    "name_or_path",
    "num_labels",
    "torch_dtype",
    "transformers_version",
};

template <std::size_t N>
bool holds(const std::string_view (&keys)[N], std::string_view key) {
  return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

}  // namespace

JsonValue common_config_defaults(TransformersVersion version) {
  return JsonValue::parse(version == TransformersVersion::v4 ? defaults_4 : defaults_5,
                          "the defaults of every config");
}

bool is_dropped_key(std::string_view key, TransformersVersion version) {
  return holds(internal_keys, key) ||
         (version == TransformersVersion::v5 && holds(generation_keys, key));
}

}  // namespace shardscope
