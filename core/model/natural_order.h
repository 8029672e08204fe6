// The order in which transformers 5 saves a model whose keys it renames.
#pragma once

#include <string_view>
#include <vector>

#include "core/model/model.h"

namespace shardscope {

/// Parts between dots: numbers by value and before words, words by letter, numbers at their end by
/// value. Source: transformers 5.23, core_model_loading.py, dot_natural_key.
bool comes_before(std::string_view name, std::string_view other);
/// All parameters in that order of their names.
std::vector<ParameterId> in_natural_order(const Model& model);

}  // namespace shardscope
