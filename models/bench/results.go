package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/randfeat/randfeat/models"
	"github.com/randfeat/randfeat/models/decoder"
	"github.com/randfeat/randfeat/models/gguf"
)

// book makes RESULTS.md. Every section stands between two comments, so that one can be measured again without the
// others.
type book struct {
	ctx     context.Context
	folder  string // of weights
	text    string // file of text
	python  string // Python that has the peers
	turns   int
	threads string // file with the output of -threads, possibly from another machine
}

// sections in the order in which they are measured.
var sections = []struct {
	name string
	make func(*book) (string, error)
}{{"decoders", (*book).decoders}, {"long", (*book).long}, {"billion", (*book).billion}, {"encoders", (*book).encoders},
	{"right", (*book).right}, {"start", (*book).start}, {"threads", (*book).manyThreads}}

// write measures the named sections, all if none is named, and replaces each in the file as soon as it is done.
// Sections without a result stay as they are.
func (b *book) write(path string, names []string) error {
	for _, s := range sections {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		text, err := s.make(b)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if text == "" {
			continue
		}
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		open, end := "<!-- "+s.name+" -->\n", "<!-- end -->\n"
		i := bytes.Index(page, []byte(open))
		if i < 0 {
			return fmt.Errorf("%s has no section %s", path, s.name)
		}
		i += len(open)
		j := i + bytes.Index(page[i:], []byte(end))
		page = slices.Concat(page[:i], []byte(text), page[j:])
		if err := os.WriteFile(path+".new", page, 0o644); err != nil {
			return err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
	}
	return nil
}

// lines runs a program that prints one result per line: a script in peers or, if peer is empty, this program itself.
// So both start as new processes.
func (b *book) lines(peer string, args ...string) ([]result, error) {
	program := b.python
	if peer == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	} else {
		args = append([]string{filepath.Join("peers", peer)}, args...)
	}
	out, err := b.output(program, args...)
	var list []result
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		var r result
		if json.Unmarshal(s.Bytes(), &r) == nil {
			list = append(list, r)
		}
	}
	return list, err
}

func (b *book) output(program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(b.ctx, program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tail := stderr.Bytes()
		err = fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, tail[max(0, len(tail)-400):])
	}
	return out, err
}

// rates has tokens per second by "program task tokens", one number per turn.
type rates map[string][]float64

func (r rates) add(name string, list []result) {
	for _, x := range list {
		key := fmt.Sprintf("%s %s %d", name, x.Task, x.Tokens)
		r[key] = append(r[key], x.PerSec)
	}
}

// of returns the median over turns, or NaN.
func (r rates) of(name, task string, tokens int) float64 {
	list := slices.Clone(r[fmt.Sprintf("%s %s %d", name, task, tokens)])
	if len(list) == 0 {
		return math.NaN()
	}
	slices.Sort(list)
	return (list[len(list)/2] + list[(len(list)-1)/2]) / 2
}

// format prints a rate with three digits or more.
func format(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	if len(s) > 3 {
		s = s[:len(s)-3] + "," + s[len(s)-3:]
	}
	return s
}

var tasks = map[string]string{"prefill": "read %d tokens", "decode": "generate after %d tokens"}

type timed struct {
	task   string
	tokens int
}

// against runs rfm and llama.cpp in turns on the same files and returns a table.
func (b *book) against(files map[string]string, order []string, cases []timed, args ...string) (string, rates, error) {
	r := rates{}
	for range b.turns {
		for _, name := range order {
			path := filepath.Join(b.folder, files[name])
			ours, err := b.lines("", append([]string{"-decoder", path}, args...)...)
			if err != nil {
				return "", nil, err
			}
			theirs, err := b.lines("llama.py", append([]string{path}, strings.Fields(
				strings.ReplaceAll(" "+strings.Join(args, " "), " -", " --"))...)...)
			if err != nil {
				return "", nil, err
			}
			r.add("rfm "+name, ours)
			r.add("llama.cpp "+name, theirs)
		}
	}
	var s strings.Builder
	s.WriteString("| |")
	for _, who := range []string{"rfm ", "llama.cpp "} {
		for _, name := range order {
			s.WriteString(" " + who + name + " |")
		}
	}
	s.WriteString("\n|---" + strings.Repeat("|---", 2*len(order)) + "|\n")
	for _, c := range cases {
		fmt.Fprintf(&s, "| "+tasks[c.task]+" |", c.tokens)
		for _, who := range []string{"rfm ", "llama.cpp "} {
			for _, name := range order {
				s.WriteString(" " + format(r.of(who+name, c.task, c.tokens)) + " |")
			}
		}
		s.WriteString("\n")
	}
	return s.String(), r, nil
}

func (b *book) decoders() (string, error) {
	files := map[string]string{"Q4_1": "smollm2.gguf", "Q4_0": "smollm2-q4_0.gguf", "Q8_0": "smollm2-q8_0.gguf"}
	cases := []timed{{"prefill", 256}, {"prefill", 1024}, {"decode", 16}, {"decode", 1024}}
	table, r, err := b.against(files, []string{"Q4_1", "Q4_0", "Q8_0"}, cases)
	if err != nil {
		return "", err
	}
	ratio := func(task string, n int, theirs string) float64 {
		return r.of("rfm Q4_1", task, n) / r.of("llama.cpp "+theirs, task, n)
	}
	return table + fmt.Sprintf(`
rfm with Q4_1 reads 1,024 tokens %.1f times as fast as llama.cpp with Q4_1 (target 3) and %.2f times as fast as with Q4_0
(target 1.2). It generates %.2f times as fast as Q4_1 (target 1.5) and %.2f times as fast as Q8_0 (target 1.1).
`, ratio("prefill", 1024, "Q4_1"), ratio("prefill", 1024, "Q4_0"), ratio("decode", 16, "Q4_1"),
		ratio("decode", 16, "Q8_0")), nil
}

func (b *book) long() (string, error) {
	one := *b
	one.turns = 1
	table, r, err := one.against(map[string]string{"Q4_0": "smollm2-q4_0.gguf"}, []string{"Q4_0"},
		[]timed{{"decode", 7936}}, "-only", "-long", "7936")
	if err != nil {
		return "", err
	}
	return table + fmt.Sprintf("\nExact attention on both sides, one turn: %.2f times as fast.\n",
		r.of("rfm Q4_0", "decode", 7936)/r.of("llama.cpp Q4_0", "decode", 7936)), nil
}

func (b *book) billion() (string, error) {
	one := *b
	one.turns = 1
	table, r, err := one.against(map[string]string{"Q4_K_M": "qwen2.5-coder-1.5b-q4_k_m.gguf"}, []string{"Q4_K_M"},
		[]timed{{"prefill", 256}, {"decode", 16}, {"decode", 1024}}, "-repeat", "1", "-short")
	if err != nil {
		return "", err
	}
	return table + fmt.Sprintf("\nOne turn: reading %.2f times, generating %.2f times as fast.\n",
		r.of("rfm Q4_K_M", "prefill", 256)/r.of("llama.cpp Q4_K_M", "prefill", 256),
		r.of("rfm Q4_K_M", "decode", 16)/r.of("llama.cpp Q4_K_M", "decode", 16)), nil
}

func (b *book) encoders() (string, error) {
	path := filepath.Join(b.folder, "all-MiniLM-L6-v2")
	r := rates{}
	for range b.turns {
		ours, err := b.lines("", "-encoder", path)
		if err != nil {
			return "", err
		}
		theirs, err := b.lines("minilm.py", path)
		if err != nil {
			return "", err
		}
		for _, x := range append(ours, theirs...) {
			r.add(strings.Fields(x.Model)[0], []result{x})
		}
	}
	var s strings.Builder
	s.WriteString("| | rfm float32 | rfm int8 | PyTorch | onnxruntime | of PyTorch | of onnxruntime |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, n := range []int{128, 512} {
		fmt.Fprintf(&s, "| embed texts of %d tokens |", n)
		for _, name := range []string{"float32", "quantised", "torch", "onnxruntime"} {
			s.WriteString(" " + format(r.of(name, "embed", n)) + " |")
		}
		for _, name := range []string{"torch", "onnxruntime"} {
			fmt.Fprintf(&s, " %.2f |", r.of("float32", "embed", n)/r.of(name, "embed", n))
		}
		s.WriteString("\n")
	}
	return s.String(), nil
}

// right compares greedy text and losses with llama.cpp, and int8 with float32.
func (b *book) right() (string, error) {
	text, err := os.ReadFile(b.text)
	if err != nil {
		return "", err
	}
	prompts := []string{"The capital of France is", "Once upon a time", "def quicksort(a):"}
	var s strings.Builder
	s.WriteString("| file | 100 greedy tokens: equal to llama.cpp's | loss of llama.cpp | rfm int8 | rfm float32 |\n" +
		"|---|---|---|---|---|\n")
	for _, name := range []string{"smollm2.gguf", "smollm2-q4_0.gguf", "smollm2-q8_0.gguf",
		"qwen2.5-coder-1.5b-q4_k_m.gguf"} {
		path := filepath.Join(b.folder, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		large := strings.HasPrefix(name, "qwen")
		m, err := models.Open(path, models.Options{})
		if err != nil {
			return "", err
		}
		var equal []string
		for _, p := range prompts {
			ids := m.Tokens.Encode(nil, p)
			theirs, err := b.theirGreedy(path, ids, 100)
			if err != nil {
				return "", err
			}
			e, err := compareGreedy(path, ids, theirs)
			if err != nil {
				return "", err
			}
			equal = append(equal, e)
		}
		n := 1024
		if large {
			n = 512
		}
		ids := m.Tokens.Encode(nil, string(text[:min(len(text), 8*n)]))[:n]
		out, err := b.output(b.python, "peers/llama.py", path, "--threads", "1", "--loss", "--ids", joined(ids))
		if err != nil {
			return "", err
		}
		theirs, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		if err != nil {
			return "", err
		}
		int8s, err := loss(m, ids)
		if err != nil {
			return "", err
		}
		m.Close()
		float := "–"
		if !large {
			f, err := models.Open(path, models.Options{Precision: "float32"})
			if err != nil {
				return "", err
			}
			v, err := loss(f, ids)
			if err != nil {
				return "", err
			}
			f.Close()
			float = fmt.Sprintf("%.5f (int8: perplexity %+.2f %%)", v, 100*(math.Exp(int8s-v)-1))
		}
		fmt.Fprintf(&s, "| %s | %s | %.5f | %.5f | %s |\n", name, strings.Join(equal, "; "), theirs, int8s, float)
	}
	return s.String(), nil
}

func joined(ids []int32) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ","), "[]")
}

func (b *book) theirGreedy(path string, ids []int32, n int) ([]int32, error) {
	out, err := b.output(b.python, "peers/llama.py", path, "--threads", "1", "--greedy",
		strconv.Itoa(n), "--ids", joined(ids))
	var list []int32
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	return list, err
}

// compareGreedy tells how many of another engine's greedy tokens this one would choose too, given the same tokens
// before. It also reports the gap of logits at the first difference.
func compareGreedy(path string, ids, theirs []int32) (string, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	m, err := decoder.New(f, decoder.Options{Quantised: true})
	if err != nil {
		return "", err
	}
	s, err := m.NewSession(nil)
	if err != nil {
		return "", err
	}
	logits, err := s.Append(ids...)
	if err != nil {
		return "", err
	}
	same, first, gap := 0, -1, float32(0)
	for i, id := range theirs {
		top := int32(0)
		for j, v := range logits {
			if v > logits[top] {
				top = int32(j)
			}
		}
		if top == id {
			same++
		} else if first < 0 {
			first, gap = i, logits[top]-logits[id]
		}
		if logits, err = s.Append(id); err != nil {
			return "", err
		}
	}
	if first < 0 {
		return "all", nil
	}
	return fmt.Sprintf("%d, then %d of %d after llama.cpp's tokens (logits %.2f apart)", first, same, len(theirs), gap), nil
}

// loss returns the mean −log p of all tokens but the first.
func loss(m *models.Model, ids []int32) (float64, error) {
	s, err := m.Decoder.Session()
	if err != nil {
		return 0, err
	}
	sum, count, err := s.Score(context.Background(), ids)
	return sum / float64(count), err
}

// start measures how long `rfm embed` takes for one line, from start to end of the process.
func (b *book) start() (string, error) {
	rfm := filepath.Join(os.TempDir(), "rfm-start")
	if _, err := b.output("go", "build", "-o", rfm, "./cmd/rfm"); err != nil {
		return "", err
	}
	defer os.Remove(rfm)
	var secs []float64
	for range 7 {
		cmd := exec.CommandContext(b.ctx, rfm, "embed", filepath.Join(b.folder, "all-MiniLM-L6-v2"))
		cmd.Stdin = strings.NewReader("a line of text\n")
		start := time.Now()
		if err := cmd.Run(); err != nil {
			return "", err
		}
		secs = append(secs, time.Since(start).Seconds())
	}
	slices.Sort(secs)
	return fmt.Sprintf("`rfm embed all-MiniLM-L6-v2` of one line, from start to end: %.3f s, median of 7 (target 0.2).\n",
		secs[len(secs)/2]), nil
}

// manyThreads makes a table from the output of -threads, or nothing if there is none.
func (b *book) manyThreads() (string, error) {
	if b.threads == "" {
		return "", nil
	}
	page, err := os.ReadFile(b.threads)
	if err != nil {
		return "", err
	}
	rows := map[int]map[string]result{}
	var order []int
	for _, line := range strings.Split(string(page), "\n") {
		var r result
		if json.Unmarshal([]byte(line), &r) != nil {
			continue
		}
		if rows[r.Threads] == nil {
			rows[r.Threads] = map[string]result{}
			order = append(order, r.Threads)
		}
		rows[r.Threads][fmt.Sprintf("%s %d", r.Task, r.Tokens)] = r
	}
	slices.Sort(order)
	var s strings.Builder
	s.WriteString("| threads | read 1,024 tokens | of one thread | generate after 16 | of one thread | GB/s |\n" +
		"|---|---|---|---|---|---|\n")
	for _, n := range order {
		read, gen, one := rows[n]["prefill 1024"], rows[n]["decode 16"], rows[order[0]]
		fmt.Fprintf(&s, "| %d | %s | %.1f | %s | %.1f | %.0f |\n", n, format(read.PerSec),
			read.PerSec/one["prefill 1024"].PerSec, format(gen.PerSec), gen.PerSec/one["decode 16"].PerSec,
			gen.GBPerSec)
	}
	return s.String(), nil
}

var modelName = regexp.MustCompile(`(?m)^model name\s*: (.*)$`)

// machine names the processor, if the system tells.
func machine() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	if m := modelName.FindSubmatch(b); m != nil {
		return fmt.Sprintf("%s, %d threads", m[1], runtime.GOMAXPROCS(0))
	}
	return fmt.Sprintf("%s, %d threads", runtime.GOARCH, runtime.GOMAXPROCS(0))
}
