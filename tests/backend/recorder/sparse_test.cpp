// Sums and products of sparse matrices on the simulated device: how many elements they have, and
// where.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardscope {
namespace {

class Sparse {
 public:
  Sparse() : library_(::dlopen(SHARDSCOPE_DEVICE_LIBRARY, RTLD_NOW | RTLD_LOCAL)) {
    call("cusparseCreate", &handle_);
  }
  ~Sparse() {
    call("cusparseDestroy", handle_);
    if (library_) ::dlclose(library_);
  }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  void* handle() const { return handle_; }
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
    return function ? function(arguments...) : -1;
  }

 private:
  void* library_;
  void* handle_ = nullptr;
};

using Numbers = std::vector<std::int32_t>;

/// In rows: row i has the columns ends[i] to ends[i + 1].
struct Rows {
  Numbers ends, columns;
};

constexpr void* none = nullptr;

std::int32_t elements_of_sum(const Sparse& sparse, Rows a, Rows b, Numbers& ends) {
  std::int32_t elements = -1;
  const auto size = [](const Numbers& numbers) { return static_cast<int>(numbers.size()); };
  EXPECT_EQ(sparse.call("cusparseXcsrgeam2Nnz", sparse.handle(), size(a.ends) - 1, 4, none,
                        size(a.columns), a.ends.data(), a.columns.data(), none, size(b.columns),
                        b.ends.data(), b.columns.data(), none, ends.data(), &elements, none),
            0);
  return elements;
}

// Row 0: columns 0, 2 and 2, 3 are three; row 1: nothing and 1; row 2: 3 and nothing.
TEST(Sparse, ASumHasTheColumnsOfBoth) {
  const Sparse sparse;
  Numbers ends(4, -1);
  EXPECT_EQ(elements_of_sum(sparse, {{0, 2, 2, 3}, {0, 2, 3}}, {{0, 2, 3, 3}, {2, 3, 1}}, ends), 5);
  EXPECT_EQ(ends, (Numbers{0, 3, 4, 5}));
  // Indices that nobody computed are zeros: at most all elements of both.
  EXPECT_EQ(elements_of_sum(sparse, {{0, 0, 0, 0}, {0, 0, 0}}, {{0, 0, 0, 0}, {0, 0, 0}}, ends), 6);
}

// [1 0 1; 0 0 0; 0 1 0] x [0 1 0; 1 0 1; 0 1 1] has 1, 2 in row 0 (rows 0 and 2 of the second one),
// nothing in row 1, and 0, 2 in row 2.
TEST(Sparse, AProductHasTheRowsThatItsRowsPick) {
  const Sparse sparse;
  Rows a{{0, 2, 2, 3}, {0, 2, 1}}, b{{0, 1, 3, 5}, {1, 0, 2, 1, 2}}, c{Numbers(4, -1), Numbers(4)};
  const auto matrix = [&](Rows& rows, std::int64_t elements) {
    void* made = nullptr;
    sparse.call("cusparseCreateCsr", &made, std::int64_t{3}, std::int64_t{3}, elements,
                static_cast<void*>(rows.ends.data()), static_cast<void*>(rows.columns.data()), none,
                2, 2, 0, 0);
    return made;
  };
  void *first = matrix(a, 3), *second = matrix(b, 5), *third = matrix(c, 0);
  void* product = nullptr;
  sparse.call("cusparseSpGEMM_createDescr", &product);
  const auto elements_after_a_call = [&] {
    std::size_t bytes = 1;
    EXPECT_EQ(sparse.call("cusparseSpGEMM_compute", sparse.handle(), none, none, none, first,
                          second, none, third, none, none, product, &bytes, none),
              0);
    EXPECT_EQ(bytes, 0U);
    std::int64_t rows = 0, columns = 0, elements = 0;
    sparse.call("cusparseSpMatGetSize", third, &rows, &columns, &elements);
    return elements;
  };
  // The first call asks for the size of the work space alone.
  EXPECT_EQ(elements_after_a_call(), 0);
  EXPECT_EQ(elements_after_a_call(), 4);
  EXPECT_EQ(sparse.call("cusparseSpGEMM_copy", sparse.handle(), none, none, none, first, second,
                        none, third, none, none, none),
            0);
  EXPECT_EQ(c.ends, (Numbers{0, 2, 2, 4}));
  EXPECT_EQ(c.columns, (Numbers{1, 2, 0, 2}));
  sparse.call("cusparseSpGEMM_destroyDescr", product);
  for (void* one : {first, second, third}) sparse.call("cusparseDestroySpMat", one);
}

}  // namespace
}  // namespace shardscope
