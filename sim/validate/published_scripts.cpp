#include "sim/validate/published_scripts.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "sim/validate/published_words.h"

namespace shardscope {
namespace {

/// One case of run_table_1.sh: NLS, HS, MBS and layers of a virtual stage, 0: none are virtual.
struct TableOneCase {
  std::int64_t layers, hidden, micro_batch, layers_of_stage;
};
constexpr std::array<TableOneCase, 10> table_one{{{24, 2304, 16, 0},
                                                  {30, 3072, 16, 0},
                                                  {36, 4096, 16, 0},
                                                  {40, 6144, 8, 0},
                                                  {48, 8192, 4, 0},
                                                  {60, 10240, 2, 5},
                                                  {80, 12288, 2, 5},
                                                  {96, 16384, 1, 3},
                                                  {105, 20480, 1, 1},
                                                  {128, 25600, 1, 0}}};

/// The tokenizer of all has 256,000 tokens.
struct Nemotron {
  std::string_view size;
  std::int64_t layers, hidden, heads, kv_heads;
  std::int64_t virtual_stages;  ///< of a rank, where there is a pipeline; 1: none are virtual
};
constexpr std::int64_t tokens_of_nemotron = 256000;
constexpr std::array<Nemotron, 4> nemotrons{{{"-8B", 32, 4096, 32, 32, 1},
                                             {"-15B", 32, 6144, 48, 8, 1},
                                             {"-22B", 40, 6144, 48, 48, 10},
                                             {"-340B", 96, 18432, 96, 8, 12}}};

template <class T>
void fill_empty(std::optional<T>& field, T value) {
  if (!field) field = value;
}

/// The row's own word goes before the script's.
bool states_interleaving(const PublishedRow& row) {
  return number_after(row.strategy, "VP") || number_after(row.strategy, "interleave ");
}

bool is_pipelined(const PublishedRow& row) { return row.pipeline_parallel.value_or(1) > 1; }

void fill_table_one(PublishedRow& row) {
  const auto found = std::ranges::find_if(table_one, [&](const TableOneCase& known) {
    return known.layers == row.layers && known.hidden == row.hidden;
  });
  if (found == table_one.end()) return;
  fill_empty(row.micro_batch, found->micro_batch);
  if (!is_pipelined(row) || states_interleaving(row) || found->layers_of_stage == 0) return;
  const std::int64_t of_rank = found->layers / *row.pipeline_parallel;
  if (found->layers % *row.pipeline_parallel == 0 && of_rank % found->layers_of_stage == 0)
    fill_empty(row.virtual_stages, of_rank / found->layers_of_stage);
}

void fill_nemotron(PublishedRow& row) {
  const auto found = std::ranges::find_if(
      nemotrons, [&](const Nemotron& known) { return has_word(row.model, known.size); });
  if (found == nemotrons.end()) return;
  fill_empty(row.layers, found->layers);
  fill_empty(row.hidden, found->hidden);
  fill_empty(row.heads, found->heads);
  fill_empty(row.kv_heads, found->kv_heads);
  fill_empty(row.ffn, 4 * found->hidden);
  fill_empty(row.vocabulary, tokens_of_nemotron);
  if (is_pipelined(row) && !states_interleaving(row))
    fill_empty(row.virtual_stages, found->virtual_stages);
}

}  // namespace

void fill_launch_script(PublishedRow& row) {
  if (has_word(row.source, "cases_april2021")) fill_table_one(row);
  if (has_word(row.source, "NeMo") && has_word(row.model, "nemotron")) fill_nemotron(row);
}

}  // namespace shardscope
