// The containers of a recording's engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/pytorch/engine/few.h"
#include "core/pytorch/engine/reference.h"

namespace shardscope::eager {
namespace {

/// Holds a shared number, so that a copy too many or a destruction too few shows in its count.
class FewTest : public ::testing::Test {
 protected:
  using Two = Few<std::shared_ptr<int>, 2>;

  Two of(std::size_t count) const {
    Two few;
    for (std::size_t i = 0; i < count; ++i) few.push_back(shared_);
    return few;
  }
  /// Beside the test's own.
  long held() const { return shared_.use_count() - 1; }

  std::shared_ptr<int> shared_ = std::make_shared<int>(7);
};

TEST_F(FewTest, HoldsItsElementsInPlaceAndBeyond) {
  for (const std::size_t count : {0, 1, 2, 3, 4, 5, 40}) {
    const Two few = of(count);
    EXPECT_EQ(few.size(), count);
    EXPECT_EQ(held(), static_cast<long>(count));
    EXPECT_TRUE(std::ranges::all_of(few, [&](const auto& one) { return one == shared_; }));
  }
  EXPECT_EQ(held(), 0);
}

TEST_F(FewTest, MovesLeaveNothingBehindAndCopiesHoldAsMuch) {
  for (const std::size_t count : {1, 2, 3, 9})
    for (const std::size_t before : {0, 2, 5}) {
      Two from = of(count), to = of(before);
      to = std::move(from);
      EXPECT_EQ(held(), static_cast<long>(count));
      EXPECT_EQ(to.size(), count);
      EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move)
      from.push_back(shared_);
      EXPECT_EQ(from.size(), 1u);
      to = from;
      EXPECT_EQ(held(), 2);
      Two& itself = to;
      to = itself;
      to = std::move(itself);
      EXPECT_EQ(to.size(), 1u);
      EXPECT_EQ(held(), 2);
    }
}

TEST_F(FewTest, ANewElementMayBeMadeOfOneThatMoves) {
  Few<std::string, 1> few;
  few.emplace_back("longer than what a string keeps in itself");
  for (int i = 0; i < 5; ++i) few.emplace_back(few.front());
  EXPECT_EQ(few.size(), 6u);
  EXPECT_TRUE(std::ranges::all_of(few, [&](const auto& one) { return one == few.front(); }));
}

/// Cannot be made of a zero.
struct Dividend {
  explicit Dividend(int divisor) {
    if (divisor == 0) throw std::invalid_argument("divides by zero");
  }
  Dividend(Dividend&&) noexcept = default;
  std::shared_ptr<int> held = std::make_shared<int>(7);
};

// As a saved tensor's pack hook, which ends the recomputation of a checkpoint.
TEST_F(FewTest, AnElementWhoseConstructorThrowsIsNotInIt) {
  for (const std::size_t count : {0, 1, 2, 3}) {
    Few<Dividend, 2> few;
    for (std::size_t i = 0; i < count; ++i) few.emplace_back(1);
    EXPECT_THROW(few.emplace_back(0), std::invalid_argument);
    EXPECT_EQ(few.size(), count);
    few.emplace_back(1);
    EXPECT_EQ(*few.back().held, 7);
  }
}

template <std::size_t bytes>
struct Sized final : Counted {
  void release_last() {
    EXPECT_TRUE(std::ranges::all_of(content, [&](char one) { return one == content[0]; }));
    delete this;
  }
  explicit Sized(char fill) { std::ranges::fill(content, fill); }
  char content[bytes];
};

/// Objects of one size hold what was put into them, whatever came and went before.
template <std::size_t bytes>
void come_and_go() {
  std::vector<Ref<Sized<bytes>>> living;
  for (int i = 0; i < 200; ++i) {
    living.emplace_back(new Sized<bytes>(static_cast<char>(i)));
    if (i % 3 == 2) living.erase(living.begin() + i / 3);
  }
}

TEST(KeptMemory, ObjectsOfEachSizeHaveTheirOwn) {
  come_and_go<1>();
  come_and_go<28>();
  come_and_go<60>();
  come_and_go<1020>();
  come_and_go<1021>();
  come_and_go<4000>();
}

TEST(KeptMemory, AnObjectMayGoInAnotherThreadAndOutliveItsOwn) {
  Ref<Sized<40>> made;
  std::thread([&] {
    come_and_go<40>();
    made = Ref(new Sized<40>('a'));
  }).join();
  std::thread([&] { made.reset(); }).join();
  EXPECT_FALSE(made);
  come_and_go<40>();
}

}  // namespace
}  // namespace shardscope::eager
