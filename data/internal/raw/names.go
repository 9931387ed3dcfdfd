package raw

import (
	"fmt"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/cell"
)

// Errorf is an error about the contents of a table.
func Errorf(place, format string, args ...any) error {
	return &data.InputError{Place: place, Detail: fmt.Sprintf(format, args...)}
}

// ColumnErrorf is an error about a cell of a column.
func ColumnErrorf(place, column string, err error, format string, args ...any) error {
	return &data.InputError{Place: place, Column: column, Detail: fmt.Sprintf(format, args...), Err: err}
}

// ColumnNames returns prefix1, prefix2, … for columns that have no names.
func ColumnNames(prefix string, n int) []string {
	names := make([]string, n)
	for j := range names {
		names[j] = fmt.Sprintf("%s%d", prefix, j+1)
	}
	return names
}

// CheckNames refuses two columns of one name: schemas find columns by name, so one of them would silently win.
func CheckNames(place string, names []string) error {
	seen := make(map[string]int, len(names))
	for j, name := range names {
		if i, ok := seen[name]; ok {
			return Errorf(place, "columns %d and %d are both named %s: rename one", i+1, j+1, cell.Quote(name))
		}
		seen[name] = j
	}
	return nil
}

// CheckWidth refuses more columns than the limit.
func CheckWidth(place string, n, limit int) error {
	if n > limit {
		return Errorf(place, "%d columns, the limit is %d: is the table transposed? Otherwise keep the columns that matter", n, limit)
	}
	return nil
}
