// Command accuracy compares the accuracy of ridge and logistic regression on random features with scikit-learn's
// pipelines of the same number of features, and with exact kernels, on the same encoded rows, splits and grids.
//
// From the folder bench, with the data sets of the papers in DIR:
//
//	pip install -r peers/requirements.txt
//	go run ./accuracy -python python3 -data DIR -o accuracy.md
//
// To see how honest the stated scores of a fit are, run many fits on few rows of a table, and on simulated tables:
//
//	go run ./accuracy -data DIR -intervals 1-40 > fits.jsonl
//	go run ./accuracy -intervals-of fits.jsonl
//
// To see how often the intervals of RMSE, MAE and R² contain the true value, no fits are needed, only errors of a
// known distribution:
//
//	go run ./accuracy -errors 20261117
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
)

type config struct {
	python, script, data, cache, out string
	threads                          int
	only, parts                      *regexp.Regexp
}

func main() {
	var c config
	flag.StringVar(&c.python, "python", "python3", "Python with the packages of peers/requirements.txt")
	flag.StringVar(&c.script, "script", "peers/accuracy.py", "the peers")
	flag.StringVar(&c.data, "data", os.Getenv("RANDFEAT_DATA"), "folder of the data sets")
	flag.StringVar(&c.cache, "cache", filepath.Join(os.TempDir(), "randfeat-accuracy"),
		"folder for results: what is there is not run again")
	flag.StringVar(&c.out, "o", "", "file for the tables, Markdown; empty: standard output")
	flag.IntVar(&c.threads, "threads", 1, "threads for ours and for the peers")
	only := flag.String("only", "", "regular expression on the names of sets to run; the tables have all that were run")
	parts := flag.String("parts", "", "regular expression on what to run: ours, peers, more, large, exact, auto")
	intervals := flag.String("intervals", "", "instead: how often stated intervals hold what models reach on new rows, "+
		"for the seeds of a range such as 1-20; a line of JSON per fit, of the cases that -only names")
	table := flag.String("intervals-of", "", "instead: the table of a file of such lines")
	errorSeed := flag.Uint64("errors", 0, "instead: how often intervals of RMSE, MAE and R² hold the truth, by law of the "+
		"errors, with this seed")
	errorSamples := flag.Int("samples", 4000, "samples per cell of the table of -errors")
	flag.Parse()
	if *errorSeed != 0 {
		if err := errorCoverage(os.Stdout, *errorSeed, *errorSamples); err != nil {
			fmt.Fprintln(os.Stderr, "accuracy:", err)
			os.Exit(1)
		}
		return
	}
	if *intervals != "" || *table != "" {
		if err := runCover(c.data, *intervals, *table, regexp.MustCompile(*only)); err != nil {
			fmt.Fprintln(os.Stderr, "accuracy:", err)
			os.Exit(1)
		}
		return
	}
	c.only, c.parts = regexp.MustCompile(*only), regexp.MustCompile(*parts)
	if err := run(c, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	}
}

// outcome is everything known about a set.
type outcome struct {
	set     set
	Rows    int               `json:"rows"`
	Width   int               `json:"width"`
	Classes int               `json:"classes"`
	Train   int               `json:"train"`
	Test    int               `json:"test"`
	Exact   int               `json:"exact"` // training rows of the comparison with exact kernels
	parts   map[string]answer // by part
}

type answer map[string]*result

// part is something that is run and stored separately.
type part struct {
	name string
	job  job
	run  func(j job) (answer, error)
}

func run(c config, log io.Writer) error {
	runtime.GOMAXPROCS(c.threads)
	if err := os.MkdirAll(c.cache, 0o755); err != nil {
		return err
	}
	var all []outcome
	for _, s := range sets() {
		o, err := c.runSet(s, log)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if len(o.parts) > 0 {
			all = append(all, o)
		}
	}
	text := report(all, c.versions())
	if c.out == "" {
		fmt.Print(text)
		return nil
	}
	return os.WriteFile(c.out, []byte(text), 0o644)
}

func (c config) runSet(s set, log io.Writer) (outcome, error) {
	path := filepath.Join(c.cache, slug(s.name))
	o := outcome{set: s, parts: map[string]answer{}}
	if !c.only.MatchString(s.name) {
		if !readJSON(path+".json", &o) {
			return o, nil
		}
		for _, name := range []string{"ours", "peers", "more", "large", "exact", "auto"} {
			var kept keptAnswer
			if readJSON(path+"-"+name+".json", &kept) {
				o.parts[name] = kept.Answer
			}
		}
		return o, nil
	}
	t, err := s.read(c.data)
	if err != nil {
		return o, err
	}
	j := newJob(s, t)
	e := j.exact(s.large)
	o.Rows, o.Width, o.Classes = t.x.Rows, t.x.Cols, len(t.classes)
	o.Train, o.Test, o.Exact = len(j.Trials[0].Train), len(j.Trials[0].Test), len(e.Trials[0].Train)
	if err := writeJSON(path+".json", o); err != nil {
		return o, err
	}
	mine := func(j job) (answer, error) { return ours(j, t) }
	theirs := func(j job) (answer, error) { return c.peers(path, j, t) }
	chosen := func(j job) (answer, error) { return automatic(j, s, t) }
	for _, p := range []part{{"ours", j, mine}, {"peers", j, theirs}, {"more", j.more(), mine}, {"large", e, mine},
		{"exact", e, theirs}, {"auto", j.auto(), chosen}} {
		if p.name == "more" && !o.behind() {
			continue
		}
		file := path + "-" + p.name + ".json"
		key, err := p.job.hash()
		if err != nil {
			return o, err
		}
		var kept keptAnswer
		fresh := readJSON(file, &kept) && kept.Job == key
		if !fresh {
			if !c.parts.MatchString(p.name) {
				continue
			}
			fmt.Fprintf(log, "%s: %s\n", s.name, p.name)
			if kept.Answer, err = p.run(p.job); err != nil {
				return o, err
			}
			kept.Job = key
			if err := writeJSON(file, kept); err != nil {
				return o, err
			}
		}
		o.parts[p.name] = kept.Answer
	}
	return o, nil
}

// keptAnswer is a stored answer with the hash of its job: another job makes it stale.
type keptAnswer struct {
	Job    string `json:"job"`
	Answer answer `json:"answer"`
}

func (j job) hash() (string, error) {
	b, err := json.Marshal(j)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), err
}

// peers passes the rows and the job to Python.
func (c config) peers(path string, j job, t *table) (answer, error) {
	j.X, j.Y = path+"-x.npy", path+"-y.npy"
	for name, m := range map[string]dense.Matrix[float64]{j.X: t.x, j.Y: t.y} {
		if err := writeNPY(name, m); err != nil {
			return nil, err
		}
		defer os.Remove(name)
	}
	question := path + "-job.json"
	if err := writeJSON(question, j); err != nil {
		return nil, err
	}
	defer os.Remove(question)
	cmd := c.command(c.script, question)
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w (install the peers with: pip install -r peers/requirements.txt)", c.python,
			c.script, err)
	}
	var a answer
	return a, json.Unmarshal(b, &a)
}

// command runs Python with the same number of threads as ours.
func (c config) command(args ...string) *exec.Cmd {
	cmd := exec.Command(c.python, args...)
	n := fmt.Sprint(c.threads)
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS="+n, "OPENBLAS_NUM_THREADS="+n, "MKL_NUM_THREADS="+n)
	return cmd
}

func (c config) versions() string {
	b, err := c.command("-c", "import sklearn, numpy, sys; print(f'scikit-learn {sklearn.__version__}, NumPy {numpy.__version__}, Python {sys.version.split()[0]}')").Output()
	if err != nil {
		return "scikit-learn"
	}
	return strings.TrimSpace(string(b))
}

func slug(name string) string {
	return regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(name, "-")
}

func readJSON(path string, v any) bool {
	b, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(b, v) == nil
}

func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

func writeNPY(path string, m dense.Matrix[float64]) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := npy.NewWriter[float64](f, m.Rows, m.Cols)
	if err != nil {
		return err
	}
	if err := w.WriteRows(m); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}
