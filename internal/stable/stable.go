// Package stable sorts short lists that no inner loop waits for.
package stable

import "sort"

// Sort is slices.SortStableFunc in one copy for all types: that function is compiled anew for each, which costs the
// program about ten kilobytes every time. It allocates; equal elements keep their order.
func Sort[T any](s []T, compare func(a, b T) int) {
	sort.SliceStable(s, func(i, j int) bool { return compare(s[i], s[j]) < 0 })
}
