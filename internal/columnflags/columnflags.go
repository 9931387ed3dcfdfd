// Package columnflags has the flags that give the columns of a table their roles. The programs randfeat and rfbeam
// share them.
package columnflags

import (
	"github.com/spf13/pflag"

	"github.com/randfeat/randfeat/data"
)

// Add adds the flags, which set fields of o.
func Add(flags *pflag.FlagSet, o *data.LearnOptions) {
	flags.StringArrayVar(&o.Targets, "target", nil, "`column` to predict; repeatable")
	flags.StringVar((*string)(&o.Task), "task", "", "regression or classification (default: by the values of the target)")
	flags.StringArrayVar(&o.IDs, "id", nil, "`column` to copy to the predictions but not to predict from; repeatable")
	flags.StringArrayVar(&o.Skip, "skip", nil, "`column` to ignore; repeatable")
	flags.StringArrayVar(&o.Numeric, "numeric", nil, "`column` that must hold numbers; repeatable")
	flags.StringArrayVar(&o.Categorical, "categorical", nil,
		"`column` of categories, even if they look like numbers; repeatable")
	flags.StringArrayVar(&o.Text, "text", nil, "`column` of short texts, encoded by words and parts of words; repeatable")
	flags.BoolVar(&o.Strict, "strict", false, "make text in a column of numbers or dates an error; otherwise up to one "+
		"value in twenty may be text and counts as missing")
}
