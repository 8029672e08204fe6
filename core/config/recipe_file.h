// A configuration file as the recipe of a fine-tuning tool.
#pragma once

#include "core/base/error.h"
#include "core/config/config_file.h"
#include "core/config/recipe/recipe.h"

namespace shardscope {

/// Whether files of the kind are recipes.
bool is_recipe(ConfigKind kind);

/// Throws what not_a_recipe says.
RecipeTool recipe_tool_of(const ConfigFile& file);

/// What to say where a recipe is asked for, and the file is another program's.
Error not_a_recipe(const ConfigFile& file);

/// Throws Error as read_recipe of its text does, and where the file is of another program.
Recipe read_recipe(const ConfigFile& file);

}  // namespace shardscope
