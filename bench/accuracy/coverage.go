package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// coverCase is a table of which a few rows are fitted and all others are new. It measures how often the intervals
// that a fit states contain the score that its model reaches on the new rows.
//
// The intervals are for the expected score of this model on rows of the same distribution, not for the score of one
// more sample, which has noise of its own. So there must be many new rows: a 95 % interval of the expected score
// contains the score of a sample as large as its own only 83 % of the time.
type coverCase struct {
	name     string
	set      string   // name of a set; empty: simulated
	simulate simulate // nil: from the set
	train    int
	balanced bool // class weights that make all classes count the same
	options  tabular.Options
}

// coverCases are real tables with several times as many new rows as fitted ones, and simulated ones.
func coverCases() []coverCase {
	logistic := tabular.Options{Kind: machine.KindLogistic}
	out := []coverCase{
		{name: "backdoor", set: "backdoor full", train: 4000},
		{name: "backdoor, balanced", set: "backdoor full", train: 4000, balanced: true},
		{name: "backdoor, balanced logistic", set: "backdoor full", train: 4000, balanced: true, options: logistic},
		{name: "campaign", set: "campaign", train: 1500},
		{name: "campaign, balanced", set: "campaign", train: 1500, balanced: true},
		{name: "nursery", set: "nursery", train: 1000},
		{name: "chess", set: "chess", train: 1500},
		{name: "MNIST 8×8", set: "MNIST 8×8", train: 1000},
		{name: "abalone, rings", set: "abalone, rings", train: 500},
		{name: "white quality", set: "wine quality white", train: 800},
		{name: "white quality, classes", set: "wine quality white, classes", train: 800},
	}
	return append(out, simulated()...)
}

// covered is one fit: the scores it stated and those its model reached.
type covered struct {
	Case     string          `json:"case"`
	Seed     uint64          `json:"seed"`
	Train    int             `json:"train"`
	Fresh    int64           `json:"fresh"` // new rows
	ScoredOn string          `json:"scored_on"`
	Stated   []machine.Score `json:"stated"`
	Reached  []machine.Score `json:"reached"` // on new rows, with intervals for their own noise
	Seconds  float64         `json:"seconds"`
	// Choices are the chosen values by name.
	Choices map[string]string `json:"choices"`
}

// runCover runs fits, or makes the table of a file of fits.
func runCover(dir, seeds, file string, only *regexp.Regexp) error {
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text, err := coverReport(b)
		fmt.Print(text)
		return err
	}
	var first, last uint64
	if _, err := fmt.Sscanf(seeds, "%d-%d", &first, &last); err != nil {
		return fmt.Errorf("-intervals %q, want two seeds such as 1-20", seeds)
	}
	return cover(dir, only, first, last, os.Stdout)
}

// cover runs the cases that match only, for seeds first to last, and writes a line of JSON per fit.
func cover(dir string, only *regexp.Regexp, first, last uint64, w io.Writer) error {
	for _, c := range coverCases() {
		if !only.MatchString(c.name) {
			continue
		}
		var all *lines
		if c.set != "" {
			i := slices.IndexFunc(coverSets(), func(s set) bool { return s.name == c.set })
			var err error
			if all, err = coverSets()[i].lines(dir); err != nil {
				return err
			}
		}
		for seed := first; seed <= last; seed++ {
			out, err := c.run(all, seed)
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", c.name, seed, err)
			}
			if err := json.NewEncoder(w).Encode(out); err != nil {
				return err
			}
		}
	}
	return nil
}

// coverSets are the sets of the accuracy tables, and some more.
func coverSets() []set {
	return append(sets(),
		set{name: "backdoor full", file: "backdoor/backdoor_full.csv", target: "class", header: true,
			task: data.Classification},
		set{name: "abalone, rings", file: "abalone/abalone.data", target: "c9", task: data.Regression})
}

// lines are the rows of a table as text.
type lines struct {
	name  string
	head  string
	rows  []string
	class []string // class of each row; nil: a regression
	learn data.LearnOptions
	marks data.MarkColumns
}

var runs = regexp.MustCompile(`[ \t]+`)

func (s set) lines(dir string) (*lines, error) {
	out := &lines{name: s.name, learn: s.learn()}
	if s.pool > 0 {
		t, err := s.readImages(filepath.Join(dir, s.file))
		if err != nil {
			return nil, err
		}
		t.imageLines()
		for i, l := range t.lines {
			out.rows = append(out.rows, string(l))
			out.class = append(out.class, t.classes[int(t.y.At(i, 0))])
		}
		return out, nil
	}
	b, err := contents(filepath.Join(dir, s.file))
	if err != nil {
		return nil, err
	}
	at := -1
	for line := range bytes.Lines(b) {
		text := strings.TrimSpace(string(line))
		switch {
		case text == "":
			continue
		case s.header && out.head == "":
			out.head = text + "\n"
			at = slices.Index(strings.Split(text, ","), s.target)
			continue
		case at < 0:
			if at, err = strconv.Atoi(strings.TrimPrefix(s.target, "c")); err != nil {
				return nil, err
			}
			at--
		}
		if !s.header && !strings.Contains(text, ",") {
			text = runs.ReplaceAllString(text, ",")
		}
		out.rows = append(out.rows, text+"\n")
		if s.task == data.Classification {
			out.class = append(out.class, strings.Split(text, ",")[at])
		}
	}
	return out, nil
}

// source returns some of the rows as a table.
func (l *lines) source(at []int) (data.Source, error) {
	var b strings.Builder
	b.WriteString(l.head)
	for _, i := range at {
		b.WriteString(l.rows[i])
	}
	header := l.head != ""
	return text.OpenBytes(l.name, []byte(b.String()), data.Options{Format: data.CSV, Header: &header})
}

func (c coverCase) run(all *lines, seed uint64) (covered, error) {
	out := covered{Case: c.name, Seed: seed, Train: c.train}
	r := rand.New(rand.NewPCG(seed, 0xc04e4))
	var train, fresh []int
	if c.simulate != nil {
		all = c.simulate(r, c.train)
		for i := range all.rows {
			if i < c.train {
				train = append(train, i)
			} else {
				fresh = append(fresh, i)
			}
		}
	} else {
		order := r.Perm(len(all.rows))
		train, fresh = order[:c.train], order[c.train:]
	}
	o := c.options
	o.Learn, o.Marks, o.Seed = all.learn, all.marks, seed
	if all.class != nil { // rows of classes that were not fitted are left out
		count := map[string]int{}
		for _, i := range train {
			count[all.class[i]]++
		}
		fresh = slices.DeleteFunc(slices.Clone(fresh), func(i int) bool { return count[all.class[i]] == 0 })
		if c.balanced {
			o.ClassWeights = nil
			for _, class := range sortedClasses(count) {
				o.ClassWeights = append(o.ClassWeights, float64(len(train))/float64(len(count)*count[class]))
			}
		}
	}
	src, err := all.source(train)
	if err != nil {
		return out, err
	}
	began := time.Now()
	m, report, err := tabular.Fit(context.Background(), src, o)
	if err != nil {
		return out, err
	}
	out.Choices = map[string]string{}
	for _, c := range report.Choices {
		out.Choices[c.Name] = c.Value
	}
	out.Seconds, out.Stated, out.ScoredOn = time.Since(began).Seconds(), report.Scores, report.ScoredOn
	if src, err = all.source(fresh); err != nil {
		return out, err
	}
	e, err := reached(m, src)
	if err != nil {
		return out, err
	}
	out.Reached, out.Fresh = e.Scores(), e.Len()
	return out, nil
}

// sortedClasses returns the classes in the order of a schema: numbers by value, others as text.
func sortedClasses(count map[string]int) []string {
	var out []string
	for c := range count {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b string) int {
		x, err := strconv.ParseFloat(a, 64)
		y, err2 := strconv.ParseFloat(b, 64)
		if err == nil && err2 == nil {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(a, b)
	})
	return out
}

// reached evaluates a model on new rows.
func reached(m *machine.Model, src data.Source) (*machine.Evaluation, error) {
	rows, err := machine.ModelRows(src, m, true, nil)
	if err != nil {
		return nil, err
	}
	e, err := m.Evaluation()
	if err != nil {
		return nil, err
	}
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		return nil, err
	}
	var ws machine.Workspace[float64]
	err = rows.Each(1024, func(x, y dense.Matrix[float64]) error {
		pred := dense.New[float64](x.Rows, m.Outputs)
		if err := p.Predict(pred, x, &ws); err != nil {
			return err
		}
		return e.Add(y, pred, dense.Matrix[float64]{})
	})
	return e, err
}

// coverReport counts, by case and score, the intervals that contain the score reached, and on which side the others
// miss.
func coverReport(b []byte) (string, error) {
	type tally struct {
		n, inside, below, above int
		z, width, noise         float64
	}
	type key struct{ name, score string }
	counts := map[key]*tally{}
	fits := map[string]int{}
	d := json.NewDecoder(bytes.NewReader(b))
	for {
		var c covered
		if err := d.Decode(&c); err == io.EOF {
			break
		} else if err != nil {
			return "", err
		}
		fits[c.Case]++
		for _, s := range c.Stated {
			i := slices.IndexFunc(c.Reached, func(r machine.Score) bool {
				return r.Name == s.Name && r.Output == s.Output
			})
			if i < 0 || math.IsNaN(s.Low) || math.IsNaN(s.High) {
				continue
			}
			r := c.Reached[i]
			k := key{c.Case, s.Name}
			if counts[k] == nil {
				counts[k] = new(tally)
			}
			t := counts[k]
			t.n++
			switch {
			case r.Value < s.Low:
				t.below++
			case r.Value > s.High:
				t.above++
			default:
				t.inside++
			}
			t.z += s.Value - r.Value
			t.width += (s.High - s.Low) / 2
			t.noise += (r.High - r.Low) / 2
		}
	}
	var out strings.Builder
	out.WriteString("| table | fits | score | inside | new rows below | above | stated − reached | half width | " +
		"noise of the new rows |\n")
	out.WriteString("|---|---:|---|---:|---:|---:|---:|---:|---:|\n")
	total := map[bool][2]int{} // by whether a case is simulated
	for _, c := range coverCases() {
		for _, name := range []string{"accuracy", "balanced accuracy", "ROC AUC", "log loss", "Brier", "RMSE", "R²",
			"MAE"} {
			t := counts[key{c.name, name}]
			if t == nil {
				continue
			}
			n := float64(t.n)
			fmt.Fprintf(&out, "| %s | %d | %s | %d | %d | %d | %+.4f | %.4f | %.4f |\n", c.name, fits[c.name], name,
				t.inside, t.below, t.above, t.z/n, t.width/n, t.noise/n)
			sum := total[c.simulate != nil]
			total[c.simulate != nil] = [2]int{sum[0] + t.inside, sum[1] + t.n}
		}
	}
	for _, sim := range []bool{false, true} {
		if sum := total[sim]; sum[1] > 0 {
			fmt.Fprintf(&out, "\n%s: %d of %d, %.3f.\n", map[bool]string{false: "Tables", true: "Simulated"}[sim],
				sum[0], sum[1], float64(sum[0])/float64(sum[1]))
		}
	}
	return out.String(), nil
}
