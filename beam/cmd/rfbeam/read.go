package main

import (
	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/beam/internal/store"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
)

// readFlags say how to read files.
type readFlags struct {
	delimiter, format string
	header, noHeader  bool
	missing           []string
	unitBytes         int64
	assume            string // encoding of the table of the fit, for commands that use a model
}

func (f *readFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", "", "format of the files (default: detected)")
	flags.StringVar(&f.delimiter, "delimiter", "",
		"CSV: the `character` between fields, \"tab\" or \"space\" (default: detected)")
	flags.BoolVar(&f.header, "header", false, "CSV: the first line names the columns (default: detected)")
	flags.BoolVar(&f.noHeader, "no-header", false, "CSV: the first line is a row")
	flags.StringSliceVar(&f.missing, "missing", nil, "`texts` that mean a missing value; empty cells always do")
	flags.Int64Var(&f.unitBytes, "unit-bytes", 0, "size in bytes of the units that files are cut into (default "+
		"32 MiB); it changes the last bits of the results")
}

func (f *readFlags) options() (data.Options, error) {
	o := data.Options{Format: data.Format(f.format), Assume: f.assume, UnitBytes: f.unitBytes}
	switch {
	case f.delimiter == "tab":
		o.Delimiter = '\t'
	case f.delimiter == "space":
		o.Delimiter = ' '
	case len(f.delimiter) == 1:
		o.Delimiter = f.delimiter[0]
	case f.delimiter != "":
		return o, misused("--delimiter is %q, want one character, tab or space", f.delimiter)
	}
	if f.header && f.noHeader {
		return o, misused("--header and --no-header exclude each other")
	}
	if f.header || f.noHeader {
		o.Header = &f.header
	}
	if f.missing != nil {
		o.Missing = append([]string{""}, f.missing...)
	}
	return o, nil
}

// absolute makes the paths of files absolute, because workers have other working directories.
func absolute(m *files.Manifest) (err error) {
	for i := 0; err == nil && i < len(m.Shards); i++ {
		if !store.Remote(m.Shards[i].Name) {
			m.Shards[i].Name, err = store.Abs(m.Shards[i].Name)
		}
	}
	return err
}

// table opens the files that the arguments name.
func (f *readFlags) table(args []string) (*files.Table, error) {
	if len(args) == 0 {
		return nil, misused("no data: name files, folders or patterns")
	}
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	paths, err := files.Expand(args...)
	if err != nil {
		return nil, err
	}
	t, err := files.Open(paths, o)
	if err != nil {
		return nil, err
	}
	return t, absolute(t.Manifest())
}
