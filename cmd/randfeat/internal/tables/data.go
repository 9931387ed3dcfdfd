package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/internal/datasets"
	"github.com/randfeat/randfeat/internal/suggest"
)

// DataSet is the object of data list --json.
type DataSet struct {
	datasets.Set
	Fetches bool `json:"fetches"` // data fetch gets all of its files
}

// DataFile is the object of data verify --json and data fetch --json for each file.
type DataFile struct {
	Set    string         `json:"set"`              // name of the data set
	Path   string         `json:"path"`             // in the folder
	State  datasets.State `json:"state"`            // ok, missing or differs
	Bytes  int64          `json:"bytes"`            // bytes downloaded
	Reason string         `json:"reason,omitempty"` // why a file is missing or differs
}

// dataFlags are the flags of the data commands.
type dataFlags struct {
	dir     string
	from    string
	timeout time.Duration
	all     bool
}

func DataCommand(env *cli.Env) *cobra.Command {
	var f dataFlags
	cmd := &cobra.Command{
		Use:   "data",
		Short: "List, verify and fetch the public data sets of tests and benchmarks",
		Long: `data lists the public data sets that tests, benchmarks and the laboratory use, with origin, licence and checksums. It
verifies the files in a folder and downloads the sets that have a public copy. Name the folder with --data, or once and
for all with the environment variable ` + datasets.Variable + `.`,
		Args: suggest.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&f.dir, "data", os.Getenv(datasets.Variable), "`folder` of the data sets")
	list := &cobra.Command{
		Use:   "list [SET...]",
		Short: "List the data sets with origin, licence and checksums",
		RunE:  cli.Do(func(_ *cobra.Command, args []string) error { return listData(env, args) }),
	}
	verify := &cobra.Command{
		Use:   "verify [SET...]",
		Short: "Compare the files in the folder with their checksums",
		Long: `Compare the files in the folder with their SHA-256. A file that ends in .gz may be compressed in any way: then its
content counts. Exit status 1 if one is missing or differs.`,
		RunE: cli.Do(func(_ *cobra.Command, args []string) error { return verifyData(env, args, &f) }),
	}
	fetch := &cobra.Command{
		Use:   "fetch SET... | --all",
		Short: "Download data sets",
		Long: `Download data sets into the folder. Every download is checked against its SHA-256 before it is put in place; an
interrupted download continues. Existing files stay. 'randfeat data list' shows the licences.

Some sets cannot be fetched: there is no public copy in the form that our code reads, or the licence does not allow one.
--from takes all files from a folder on a server that has them in that form, such as the data folder of a colleague.`,
		Example: `  randfeat data fetch abalone wine --data ~/data
  randfeat data fetch --all --data ~/data --from http://colleague:8000/data`,
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error { return fetchData(cmd.Context(), env, args, &f) }),
	}
	fetch.Flags().BoolVar(&f.all, "all", false, "fetch all sets that have a public copy")
	fetch.Flags().StringVar(&f.from, "from", "", "`URL` of a folder with the files of the list")
	fetch.Flags().DurationVar(&f.timeout, "timeout", 10*time.Minute, "longest time for one file")
	for _, c := range []*cobra.Command{list, verify, fetch} {
		c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, s := range datasets.List() {
				names = append(names, s.Name+"\t"+s.Title)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}
	}
	cmd.AddCommand(list, verify, fetch)
	return cmd
}

// chosenData returns the named sets, or all.
func chosenData(names []string) ([]datasets.Set, error) {
	if len(names) == 0 {
		return datasets.List(), nil
	}
	var sets []datasets.Set
	for _, name := range names {
		s, err := datasets.Find(name)
		if err != nil {
			return nil, cli.Misuse{Err: err}
		}
		sets = append(sets, s)
	}
	return sets, nil
}

// fetches reports whether every file of a set has an address, and if not why.
func fetches(s datasets.Set) (why string, ok bool) {
	for _, f := range s.Files {
		if len(f.URLs) == 0 {
			return f.Why, false
		}
	}
	return "", true
}

func listData(env *cli.Env, names []string) error {
	sets, err := chosenData(names)
	if err != nil {
		return err
	}
	if env.JSON {
		for _, s := range sets {
			_, ok := fetches(s)
			if err := env.Object(DataSet{Set: s, Fetches: ok}); err != nil {
				return err
			}
		}
		return nil
	}
	if len(names) > 0 {
		for _, s := range sets {
			describeData(env, s)
		}
		return nil
	}
	err = cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprintln(w, "SET\tMB\tFETCH\tLICENCE\tORIGIN")
		for _, s := range sets {
			var bytes int64
			for _, f := range s.Files {
				bytes += f.Bytes
			}
			_, ok := fetches(s)
			fmt.Fprintf(w, "%s\t%.2f\t%s\t%s\t%s\n", s.Name, float64(bytes)/1e6, cli.YesNo(ok), s.Licence, s.Origin)
		}
	})
	if err != nil {
		return err
	}
	env.Note("'randfeat data list SET' shows files, checksums and the copy that they were measured on.")
	return nil
}

// describeData prints everything known about a set.
func describeData(env *cli.Env, s datasets.Set) {
	w := cli.Printable{Writer: env.Stdout}
	fmt.Fprintf(w, "%s: %s\n  size     %s\n  origin   %s\n", s.Name, s.Title, s.Size, s.Origin)
	if s.Page != "" {
		fmt.Fprintf(w, "  page     %s\n", s.Page)
	}
	fmt.Fprintf(w, "  licence  %s\n  copy     %s\n", s.Licence, s.Source)
	for _, f := range s.Files {
		fmt.Fprintf(w, "  file     %s (%d bytes)\n  sha256   %s\n", f.Path, f.Bytes, f.SHA256)
		if f.Content != "" {
			fmt.Fprintf(w, "  content  %s\n", f.Content)
		}
		for _, u := range f.URLs {
			fmt.Fprintf(w, "  fetch    %s\n", u)
		}
		if f.Why != "" {
			fmt.Fprintf(w, "  fetch    no: %s\n", f.Why)
		}
	}
}

// folder checks that a folder is named.
func (f *dataFlags) folder() error {
	if f.dir == "" {
		return cli.Misused("no folder of data sets: name one with --data or the environment variable %s",
			datasets.Variable)
	}
	return nil
}

func verifyData(env *cli.Env, names []string, f *dataFlags) error {
	if err := f.folder(); err != nil {
		return err
	}
	sets, err := chosenData(names)
	if err != nil {
		return err
	}
	if info, err := os.Stat(f.dir); err != nil {
		return fmt.Errorf("the folder of data sets: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", f.dir)
	}
	var found []DataFile
	missing := map[string]bool{}
	for _, s := range sets {
		for _, file := range s.Files {
			d := DataFile{Set: s.Name, Path: file.Path}
			if d.State, err = file.Verify(f.dir); err != nil {
				return err
			}
			switch d.State {
			case datasets.Missing:
				missing[s.Name] = true
				if d.Reason = "randfeat data fetch " + s.Name; file.Why != "" {
					d.Reason = "cannot be fetched: " + file.Why
				}
			case datasets.Differs:
				missing[s.Name] = true
				d.Reason = "its content differs from the list: move it away and fetch it again"
			}
			found = append(found, d)
		}
	}
	if err := printDataFiles(env, found); err != nil {
		return err
	}
	if len(missing) > 0 {
		env.Note("%d of %d sets are complete.", len(sets)-len(missing), len(sets))
		return cli.ErrMiss
	}
	return nil
}

func printDataFiles(env *cli.Env, found []DataFile) error {
	if env.JSON {
		for _, d := range found {
			if err := env.Object(d); err != nil {
				return err
			}
		}
		return nil
	}
	return cli.Table(env.Stdout, func(w io.Writer) {
		for _, d := range found {
			fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%s\t%s\t%s", d.State, d.Path, d.Reason), "\t"))
		}
	})
}

func fetchData(ctx context.Context, env *cli.Env, names []string, f *dataFlags) error {
	if err := f.folder(); err != nil {
		return err
	}
	switch {
	case len(names) == 0 && !f.all:
		return cli.Misused("no data set is named: name some, or set --all")
	case len(names) > 0 && f.all:
		return cli.Misused("--all and names of data sets exclude each other")
	case f.timeout <= 0:
		return cli.Misused("--timeout must be positive")
	}
	sets, err := chosenData(names)
	if err != nil {
		return err
	}
	fetcher := &datasets.Fetcher{From: f.from}
	failed := false
	var found []DataFile
	for _, s := range sets {
		if why, ok := fetches(s); !ok && f.all && f.from == "" {
			env.Note("%s is left out: %s", s.Name, why)
			continue
		}
		for _, file := range s.Files {
			d, err := fetchFile(ctx, env, fetcher, s, file, f)
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted; the same command goes on where it stopped: %w", err)
			}
			failed = failed || err != nil
			found = append(found, d)
		}
	}
	if err := printDataFiles(env, found); err != nil {
		return err
	}
	if failed {
		return cli.ErrMiss
	}
	return nil
}

// fetchFile fetches one file; its error is also the reason in the output.
func fetchFile(ctx context.Context, env *cli.Env, t *datasets.Fetcher, s datasets.Set, file datasets.File,
	f *dataFlags) (DataFile, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("longer than --timeout %v", f.timeout))
	defer cancel()
	p := env.Progress(file.Path, int(file.Bytes)).WithRate("B")
	p.Approx = true
	t.Progress = func(_ datasets.File, n int64) { p.At(int(n)) }
	n, err := t.Fetch(ctx, f.dir, file)
	p.End()
	d := DataFile{Set: s.Name, Path: file.Path, State: datasets.OK, Bytes: n}
	if err != nil {
		if d.State, _ = file.Verify(f.dir); d.State == "" {
			d.State = datasets.Missing
		}
		d.Reason = err.Error()
		if errors.Is(err, datasets.ErrNoSource) {
			d.Reason += "; see 'randfeat data list " + s.Name + "' for where it comes from"
		}
	}
	return d, err
}
