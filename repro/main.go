// Command repro repeats the tables and figures of five papers on random features and writes them as a static site.
//
//	go -C repro run . list
//	go -C repro run . run [ITEM...] [-full] [-out ../public/lab] [-cache DIR] [-data DIR]
//
// Without items it runs all of them. Results go to stdout, progress to stderr. An interrupted run continues from its
// cache. The exit status is 0 if the items ran, whatever the verdicts, 1 if an item failed, and 2 if the command was
// misused.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/randfeat/randfeat/internal/suggest/similar"
	"github.com/randfeat/randfeat/repro/lab"
	"github.com/randfeat/randfeat/repro/papers"
	"github.com/randfeat/randfeat/web/explorer"
)

// record has the last recorded result of every item, for items whose data are missing.
//
//go:embed RESULTS.jsonl
var record []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

const usage = `repro repeats the tables, figures and theorems of five papers and gives a verdict for each number.

  repro list                    list the items: one per table, figure or theorem
  repro run [ITEM...] [flags]   run all items, or some: an item (simplex-fig4) or a paper (simplex)

'repro run -h' lists the flags.
`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	switch args[0] {
	case "list":
		if len(args) > 1 {
			fmt.Fprint(stderr, usage)
			return 2
		}
		for _, it := range papers.Items() {
			fmt.Fprintf(stdout, "%-18s %s: %s\n", it.ID, it.Paper, it.Title)
		}
		return 0
	case "run":
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
		return 0
	default:
		fmt.Fprintf(stderr, "repro: unknown command %q\n%s", args[0], usage)
		return 2
	}
	var o options
	items, err := o.parse(args[1:], stderr)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		fmt.Fprintf(stderr, "repro: %v\n", err)
		return 2
	}
	if err := o.run(ctx, items, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "repro: %v\n", err)
		return 1
	}
	return 0
}

type options struct {
	full, fresh, explorer           bool
	out, cache, data, results, json string
	workers                         int
}

func ids(items []*lab.Item) []string {
	var out []string
	for _, it := range items {
		out = append(out, it.ID)
	}
	return out
}

// parse accepts flags and items in any order.
func (o *options) parse(args []string, stderr io.Writer) ([]*lab.Item, error) {
	f := flag.NewFlagSet("repro run", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { fmt.Fprint(stderr, "usage: repro run [ITEM...] [flags]\n"); f.PrintDefaults() }
	f.BoolVar(&o.full, "full", false, "run the papers' settings, which takes hours; without it, quick settings run in "+
		"minutes")
	f.StringVar(&o.out, "out", "", "write the site into this `folder`")
	f.StringVar(&o.cache, "cache", defaultCache(), "`folder` in which cells (single computations) are kept for later "+
		"runs; \"\" keeps none")
	f.BoolVar(&o.fresh, "fresh", false, "compute all cells again, even if they are in the cache")
	f.StringVar(&o.data, "data", os.Getenv("RANDFEAT_DATA"), "`folder` of data sets")
	f.StringVar(&o.results, "results", "", "write the table of verdicts to this Markdown `file` and its records "+
		"beside it; items that do not run keep their verdicts")
	f.StringVar(&o.json, "json", "", "write all checks and the counts by kind to this JSON `file`")
	f.BoolVar(&o.explorer, "explorer", true, "put the explorer into the site")
	f.IntVar(&o.workers, "j", 0, "number of cells computed at the same time; 0: one per core")
	names, err := similar.Arguments(f, args)
	if err != nil {
		return nil, err
	}
	all := papers.Items()
	if len(names) == 0 {
		return all, nil
	}
	var items []*lab.Item
	for _, name := range names {
		n := len(items)
		for _, it := range all {
			if it.ID == name || strings.HasPrefix(it.ID, name+"-") {
				items = append(items, it)
			}
		}
		if len(items) == n {
			hint := "'repro list' shows all items"
			if near := similar.Nearest(name, ids(all)); near != "" {
				hint = fmt.Sprintf("did you mean %s?", near)
			}
			return nil, fmt.Errorf("no item %q, %s", name, hint)
		}
	}
	return items, nil
}

func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "randfeat-repro")
}

func (o *options) run(ctx context.Context, items []*lab.Item, stdout, stderr io.Writer) error {
	recorded, err := lab.ReadRecords(record)
	if err != nil {
		return fmt.Errorf("RESULTS.jsonl: %w", err)
	}
	l := &lab.Lab{Context: ctx, Full: o.full, Fresh: o.fresh, DataDir: o.data, Cache: o.cache, Workers: o.workers,
		Log: stderr, Recorded: recorded}
	var pages []*lab.Page
	var failed []error
	started := time.Now()
	for i, it := range items {
		bar := newBar(stderr, fmt.Sprintf("[%d/%d] ", i+1, len(items)))
		l.Progress = bar.cell
		p, err := l.Do(it)
		bar.end()
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: cells so far are in %s; the same command goes on from there", o.cache)
		}
		if err != nil { // the other items still run
			fmt.Fprintln(stderr, err)
			failed = append(failed, err)
			continue
		}
		print(stdout, p)
		fmt.Fprintf(stderr, "%s: %.1f s\n", it.ID, p.Seconds)
		pages = append(pages, p)
	}
	s := lab.NewSite(pages)
	s.Contents = papers.Contents()
	fmt.Fprintf(stdout, "\n%d items: %s (seed %d, %s mode, %.0f s).\n", len(pages), s.Verdicts(), lab.Seed, l.Mode(),
		time.Since(started).Seconds())
	if o.out != "" {
		if o.explorer {
			if err := writeExplorer(ctx, o.out); err != nil {
				fmt.Fprintf(stderr, "the site has no explorer: %v\n", err)
			}
		}
		if err := s.Write(o.out); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "open %s\n", filepath.Join(o.out, "index.html"))
	}
	if o.results != "" {
		if err := writeResults(s, o.results); err != nil {
			return err
		}
	}
	if o.json != "" {
		if err := s.WriteJSON(o.json); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d items failed", len(failed), len(items))
	}
	return nil
}

// writeResults writes the table of verdicts to FILE.md and the records it is made from to FILE.jsonl. Items that
// were not run keep their previous record.
func writeResults(s *lab.Site, path string) error {
	lines := strings.TrimSuffix(path, filepath.Ext(path)) + ".jsonl"
	b, err := os.ReadFile(lines)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	recorded, err := lab.ReadRecords(b)
	if err != nil {
		return fmt.Errorf("%s: %w", lines, err)
	}
	s = s.Keep(papers.Items(), recorded)
	if err := s.WriteRecords(lines); err != nil {
		return err
	}
	return s.WriteResults(path)
}

// writeExplorer builds the explorer beside the pages of the items.
func writeExplorer(ctx context.Context, out string) error {
	page, err := explorer.Build(ctx, "..") // the library is the folder above this module
	if err != nil {
		return err
	}
	dir := filepath.Join(out, "explorer")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "index.html"), page, 0o666)
}

// print writes the verdicts of a page as a table.
func print(w io.Writer, p *lab.Page) {
	fmt.Fprintf(w, "\n%s: %s (%s)\n", p.Item.ID, p.Item.Title, p.Item.Paper)
	if p.Skipped != "" {
		fmt.Fprintf(w, "  %s\n", p.Skipped)
		return
	}
	for _, c := range p.Checks {
		fmt.Fprintf(w, "  %-9s  %s: %s (%s), ours %s %s\n", c.Verdict, c.What, c.Reference, c.Source, c.Ours,
			c.Interval)
		if c.Why != "" {
			fmt.Fprintf(w, "             %s\n", c.Why)
		}
	}
}

// bar shows progress on a terminal.
type bar struct {
	w      io.Writer
	prefix string
	from   time.Time
	what   string
	last   time.Time
	drawn  bool
}

func newBar(w io.Writer, prefix string) *bar {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		w = nil
	}
	return &bar{w: w, prefix: prefix}
}

func (b *bar) cell(what string, done, total, cached int) {
	now := time.Now()
	if what != b.what {
		b.what, b.from, b.last = what, now, time.Time{}
	}
	if b.w == nil || done < total && now.Sub(b.last) < 200*time.Millisecond {
		return
	}
	b.last, b.drawn = now, true
	const width = 24
	n := width * done / total
	line := fmt.Sprintf("%s%s %s%s %d/%d", b.prefix, what, strings.Repeat("█", n), strings.Repeat("░", width-n), done,
		total)
	if cached > 0 {
		line += fmt.Sprintf(", %d from the cache", cached)
	}
	if left := total - done; left > 0 && done > cached {
		// Cached cells take no time, so only computed ones count for the estimate.
		line += fmt.Sprintf(", %s left",
			(now.Sub(b.from) * time.Duration(left) / time.Duration(done-cached)).Round(time.Second))
	}
	fmt.Fprintf(b.w, "\r\x1b[K%s", line)
}

func (b *bar) end() {
	if b.drawn {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}
