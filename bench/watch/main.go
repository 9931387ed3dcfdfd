// Command watch measures the tests of machine/watch on real tables: false alarms, and power against changes of known
// size. With -python it runs other libraries on the same splits.
//
//	go run ./watch -python python3 -splits 25 -changed 4
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine/watch"
)

type options struct {
	dir, python, script         string
	rows, splits, changed, peer int
	looks, shift                int
}

func main() {
	var o options
	flag.StringVar(&o.dir, "data", os.Getenv("RANDFEAT_DATA"), "folder of the tables")
	flag.IntVar(&o.rows, "rows", 500, "rows of each of the two samples")
	flag.IntVar(&o.splits, "splits", 25, "splits without a change, per table")
	flag.IntVar(&o.changed, "changed", 4, "splits with each change, per table")
	flag.StringVar(&o.python, "python", "", "Python with the peers; empty: none")
	flag.StringVar(&o.script, "script", "peers/watch.py", "script of the peers")
	flag.IntVar(&o.peer, "peer", 5, "splits without a change that peers see, per table")
	flag.IntVar(&o.looks, "looks", 0, "windows of a stream that is read again and again: measures its false alarms instead")
	flag.IntVar(&o.shift, "shifts", 0, "shifts per table: measures the intervals of scores without targets instead")
	flag.Parse()
	err := o.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tally counts alarms by method.
type tally struct {
	alarms, splits map[string]int
	seconds        map[string]float64
}

func (t *tally) add(method string, alarm bool, seconds float64) {
	if t.alarms == nil {
		t.alarms, t.splits, t.seconds = map[string]int{}, map[string]int{}, map[string]float64{}
	}
	t.splits[method]++
	t.seconds[method] += seconds
	if alarm {
		t.alarms[method]++
	}
}

const ours = "randfeat"

func (o *options) run() error {
	switch {
	case o.looks > 0:
		return o.streams()
	case o.shift > 0:
		return o.shifts()
	}
	folder, err := os.MkdirTemp("", "watch")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	total := make([]tally, len(changes))
	for _, name := range names {
		t, err := read(o.dir, name)
		if err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(1, 2))
		fmt.Printf("%-24s", t.name)
		for c, change := range changes {
			k, alarms := o.changed, 0
			if c == 0 {
				k = o.splits
			}
			done := 0
			for ; done < k; done++ {
				a, b, ok := t.pick(change, o.rows, r)
				if !ok {
					break
				}
				old, csv, err := source("old", t.head, a)
				if err != nil {
					return err
				}
				now, csv2, err := source("new", t.head, b)
				if err != nil {
					return err
				}
				began := time.Now()
				rep, err := compare(old, now)
				if err != nil {
					return fmt.Errorf("%s: %w", t.name, err)
				}
				total[c].add(ours, rep.Changed, time.Since(began).Seconds())
				total[c].add("  joint", rep.Joint <= .05, 0)
				total[c].add("  columns", rep.Columns[0].P <= .05, 0)
				total[c].add("  relations", rep.Relations <= .05, 0)
				if rep.Changed {
					alarms++
				}
				if o.python == "" || c == 0 && done >= o.peer {
					continue
				}
				at := filepath.Join(folder, fmt.Sprintf("%d-%s-%d", c, t.name, done))
				if err := os.WriteFile(at+".old.csv", csv, 0o666); err != nil {
					return err
				}
				if err := os.WriteFile(at+".new.csv", csv2, 0o666); err != nil {
					return err
				}
			}
			fmt.Printf(" %2d/%-2d", alarms, done)
		}
		fmt.Println()
	}
	if o.python != "" {
		if err := o.peers(folder, total); err != nil {
			return err
		}
	}
	methods := []string{ours, "  joint", "  columns", "  relations", "MMD", "columns", "classifier", "Evidently"}
	fmt.Printf("\n%-40s", "")
	for _, m := range methods {
		fmt.Printf(" %11s", m)
	}
	fmt.Println()
	for c, change := range changes {
		fmt.Printf("%-40s", change)
		for _, m := range methods {
			fmt.Printf(" %5.3f of %-3d", float64(total[c].alarms[m])/float64(max(1, total[c].splits[m])),
				total[c].splits[m])
		}
		fmt.Println()
	}
	fmt.Printf("%-40s", "seconds")
	for _, m := range methods {
		s, n := 0.0, 0
		for c := range total {
			s, n = s+total[c].seconds[m], n+total[c].splits[m]
		}
		fmt.Printf(" %12.3f", s/float64(max(1, n)))
	}
	fmt.Println()
	return nil
}

// peers runs the script on the splits of the folder.
func (o *options) peers(folder string, total []tally) error {
	cmd := exec.Command(o.python, o.script, folder)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var r struct {
			Split, Peer string
			P, Seconds  float64
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // other programs' messages
		}
		c, err := strconv.Atoi(strings.SplitN(r.Split, "-", 2)[0])
		if err != nil || c >= len(total) {
			return fmt.Errorf("a split %q", r.Split)
		}
		total[c].add(r.Peer, r.P <= .05, r.Seconds)
	}
	return cmd.Wait()
}

// compare tests a new table against an old one.
func compare(old, now data.Source) (*watch.Report, error) {
	s, _, err := data.Learn(old, data.LearnOptions{})
	if err != nil {
		return nil, err
	}
	ref, err := watch.Table(old, s, watch.Options{})
	if err != nil {
		return nil, err
	}
	m := ref.Monitor()
	if err := m.AddTable(now, watch.TableOptions{}); err != nil {
		return nil, err
	}
	return m.Report(0)
}

// streams reads windows of unchanged rows one after the other: each table gives a reference of half of its rows, and
// windows drawn from the other half.
func (o *options) streams() error {
	streams, alarms, single, reports := 0, 0, 0, 0
	for _, name := range names {
		t, err := read(o.dir, name)
		if err != nil {
			return err
		}
		for k := range o.changed {
			r := rand.New(rand.NewPCG(uint64(k), 3))
			order := r.Perm(len(t.rows))
			half := min(len(order)/2, 4000)
			draw := func(rows []int) (out [][]string) {
				for _, i := range rows {
					out = append(out, slices.Clone(t.rows[i]))
				}
				return out
			}
			old, _, err := source("old", t.head, draw(order[:half]))
			if err != nil {
				return err
			}
			s, _, err := data.Learn(old, data.LearnOptions{})
			if err != nil {
				return err
			}
			ref, err := watch.Table(old, s, watch.Options{})
			if err != nil {
				return err
			}
			var seq watch.Sequence
			changed := false
			rest := order[half:]
			size := len(rest) / o.looks
			if size < 2*watch.LeastRows {
				continue // too few rows for separate windows
			}
			for w := range o.looks {
				now, _, err := source("new", t.head, draw(rest[w*size:(w+1)*size]))
				if err != nil {
					return err
				}
				m := ref.Monitor()
				if err := m.AddTable(now, watch.TableOptions{}); err != nil {
					return err
				}
				rep, err := m.Report(0)
				if err != nil {
					return err
				}
				reports++
				if rep.Changed {
					single++
				}
				if rep, err = seq.Report(m); err != nil {
					return err
				}
				if rep.Changed && !changed {
					fmt.Printf("%s, stream %d, window %d of %d rows: joint %.2g, relations %.2g, %+v\n", t.name, k, w+1,
						rep.Rows, rep.Joint, rep.Relations, rep.Columns[0])
				}
				changed = changed || rep.Changed
			}
			streams++
			if changed {
				alarms++
			}
		}
	}
	fmt.Printf("%d of %d streams of %d windows changed; single windows: %d of %d\n", alarms, streams, o.looks, single,
		reports)
	return nil
}
