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

// FlagHints returns the flags that a message of the library is about. has says which flags the command has; nil means
// all.
func FlagHints(message string, has func(flag string) bool) []string {
	var out []string
	lower := strings.ToLower(message)
	for _, h := range hints {
		flag, _, _ := strings.Cut(h.hint, " ")
		if strings.Contains(lower, h.phrase) && !strings.Contains(message, flag) &&
			(has == nil || has(strings.TrimPrefix(flag, "--"))) {
			out = append(out, h.hint)
		}
	}
	return out
}
