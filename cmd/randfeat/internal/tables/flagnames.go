package tables

import "strings"

// hints name the flags for what the library suggests in its own terms: it knows no flags. Of several phrases in one
// message, all apply.
var hints = []struct{ phrase, hint string }{
	{"is infinite", "--missing and the text of the cell, such as --missing inf, counts it as missing"},
	{"name it as missing", "--missing"},
	{"name them as missing", "--missing"},
	{"cannot be divided into", "--folds"},
	{"ask for more than 1 fold", "--folds"},
	{"for classification", "--task classification"},
	{"for regression", "--task regression"},
	{"as categorical", "--categorical"},
	{"as numeric", "--numeric"},
	{"named as text", "--text"},
	{"as an id", "--id"},
	{"name it as a target of classes", "--task classification"},
}

// flagHint returns the flags that a message of the library is about, in parentheses, or "".
func flagHint(message string) string {
	lower, out := strings.ToLower(message), []string(nil)
	for _, h := range hints {
		flag, _, _ := strings.Cut(h.hint, " ")
		if strings.Contains(lower, h.phrase) && !strings.Contains(message, flag) {
			out = append(out, h.hint)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}

// flaggedError is an error of the library with the flags that it is about.
type flaggedError struct {
	error
	hint string
}

func (e flaggedError) Error() string { return e.error.Error() + e.hint }

func (e flaggedError) Unwrap() error { return e.error }

// withFlags adds to an error the flags that it is about.
func withFlags(err error) error {
	if err == nil {
		return nil
	}
	if hint := flagHint(err.Error()); hint != "" {
		return flaggedError{err, hint}
	}
	return err
}
