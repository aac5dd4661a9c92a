// SPDX-License-Identifier: Apache-2.0

// The scopes that a store's server keeps: they open and close, within a limit of memory.

#include "core/bootstrap/store/scope_table.hpp"

#include <gtest/gtest.h>

namespace capstan {
namespace {

using Value = std::vector<std::byte>;

/// Puts values until there is no more room; how many there were.
int fill(ScopeTable& scopes, Scope& scope) {
  int count = 0;
  while (count < 100'000 && scopes.put(scope, "key " + std::to_string(count), Value(1 << 20)))
    ++count;
  return count;
}

TEST(ScopeTable, AScopeThatHasClosedTakesNoMemory) {
  ScopeTable scopes{false};
  scopes.close("never opened");
  scopes.open("one");
  const int room = fill(scopes, *scopes.admit("one"));
  EXPECT_GT(room, 0);
  scopes.open("two");
  EXPECT_EQ(fill(scopes, *scopes.admit("two")), 0);
  scopes.close("one");
  EXPECT_EQ(scopes.admit("one"), nullptr);
  EXPECT_EQ(fill(scopes, *scopes.admit("two")), room);
}

TEST(ScopeTable, AValueThatIsReplacedTakesNoMemory) {
  ScopeTable scopes{false};
  scopes.open("one");
  Scope& scope = *scopes.admit("one");
  const int room = fill(scopes, scope);
  EXPECT_TRUE(scopes.put(scope, "key 0", Value(1 << 20)));
  EXPECT_TRUE(scopes.put(scope, "key 0", Value(1)));
  EXPECT_TRUE(scopes.put(scope, "another", Value(1 << 20)));
  EXPECT_FALSE(scopes.put(scope, "one too many", Value(1 << 20)));
  EXPECT_EQ(scope.find("key " + std::to_string(room - 1))->size(), std::size_t{1} << 20);
}

TEST(ScopeTable, ALaunchersScopeEndsWithItsLastRank) {
  ScopeTable scopes{true};
  Scope* const scope = scopes.admit("job");
  for (const int rank : {0, 1}) scope->enter(rank, 2);
  EXPECT_TRUE(scope->complete());
  scopes.put(*scope, "key", Value(3));
  scopes.leave(*scope, 0);
  EXPECT_EQ(scopes.admit("job"), scope) << "tools come at any time";
  scopes.leave(*scope, 1);
  EXPECT_EQ(scopes.admit("job")->find("key"), nullptr) << "a new scope";
}

}  // namespace
}  // namespace capstan
