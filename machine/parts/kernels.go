package parts

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/internal/kern"
)

// kernelsHere names the processor architecture and the table of CPU kernels of this process.
func kernelsHere() (string, error) {
	tab, err := kern.Chosen[float64]()
	if err != nil {
		return "", err
	}
	return runtime.GOARCH + " " + tab.Name, nil
}

// union returns the names in a or b, sorted and without duplicates.
func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// mixed returns a sentence about parts from machines of several kinds, or "" if all are of one kind. A name is an
// architecture, or an architecture with a table of kernels; the first is compatible with any table on that
// architecture.
func mixed(kernels []string) string {
	kinds := slices.DeleteFunc(slices.Clone(kernels), func(name string) bool {
		return slices.ContainsFunc(kernels, func(other string) bool { return strings.HasPrefix(other, name+" ") })
	})
	if len(kinds) < 2 {
		return ""
	}
	return fmt.Sprintf("the steps ran on machines of several kinds (%s): the model is as exact, but its last bits differ "+
		"from those of a run on one kind; RANDFEAT_KERNEL chooses the same kernels on all machines of one architecture",
		strings.Join(kinds, ", "))
}
