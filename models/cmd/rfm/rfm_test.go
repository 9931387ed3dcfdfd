package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sbinet/npyio"

	"github.com/randfeat/randfeat/models"
	"github.com/randfeat/randfeat/models/internal/tiny"
)

func rfm(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), strings.NewReader(stdin), &out, &errs, args)
	return code, out.String(), errs.String()
}

// done runs a command that must succeed.
func done(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	code, out, errs := rfm(t, stdin, args...)
	if code != 0 {
		t.Fatalf("rfm %q: %d, %s", args, code, errs)
	}
	return out
}

// Every format of input and output has the same embeddings.
func TestEmbedFormats(t *testing.T) {
	model, dir := tiny.Folder(t, "bert"), t.TempDir()
	inputs := map[string]string{"a.txt": "one text\nanother, \"text\"\n",
		"a.csv":    "n,text\n1,one text\n2,\"another, \"\"text\"\"\"\n",
		"a.ndjson": "{\"text\": \"one text\"}\n\n\"another, \\\"text\\\"\"\n"}
	want := done(t, inputs["a.txt"], "embed", model)
	if strings.Count(want, "\n") != 2 {
		t.Fatal(want)
	}
	for name, text := range inputs {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := done(t, "", "embed", model, path); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	var rows [][]float32
	for line := range strings.Lines(want) {
		var e Embedding
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, e.Embedding)
	}
	npy := filepath.Join(dir, "x.npy")
	done(t, inputs["a.txt"], "embed", model, "-", "-o", npy)
	f, err := os.Open(npy)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := npyio.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var x []float32
	if err := r.Read(&x); err != nil {
		t.Fatal(err)
	}
	if s := r.Header.Descr.Shape; len(s) != 2 || s[0] != 2 || s[1] != len(rows[0]) {
		t.Fatalf("shape %v", s)
	}
	for i, v := range x {
		if w := rows[i/len(rows[0])][i%len(rows[0])]; v != w {
			t.Fatalf("number %d is %v, want %v", i, v, w)
		}
	}
	csv := done(t, inputs["a.txt"], "embed", model, "--to", "csv")
	if lines := strings.Split(csv, "\n"); len(lines) != 4 || !strings.HasPrefix(lines[0], "e0,e1,") ||
		strings.Count(lines[1], ",") != len(rows[0])-1 {
		t.Errorf("%.200s", csv)
	}
}

func TestGenerateAndAsk(t *testing.T) {
	model, dir := tiny.Folder(t, "llama"), t.TempDir()
	plain := done(t, "", "generate", model, "a text", "-n", "8")
	var g Generation
	if err := json.Unmarshal([]byte(done(t, "a text", "generate", model, "-", "-n", "8", "--json")), &g); err != nil ||
		printable(g.Text)+"\n" != plain || g.Tokens == 0 || g.PromptTokens == 0 {
		t.Errorf("%+v, %v; plain %q", g, err, plain)
	}
	document, session := filepath.Join(dir, "d.txt"), filepath.Join(dir, "s.rfs")
	if err := os.WriteFile(document, []byte(strings.Repeat("a document. ", 9)), 0o600); err != nil {
		t.Fatal(err)
	}
	first := done(t, "", "ask", "--model", model, "--read", document, "--session", session, "why?", "-n", "8")
	before, err := os.ReadFile(session)
	if err != nil {
		t.Fatal(err)
	}
	if again := done(t, "", "ask", "--session", session, "why?", "-n", "8"); again != first {
		t.Errorf("%q, then %q", first, again)
	}
	if after, err := os.ReadFile(session); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the session has changed (%v)", err)
	}
	first = done(t, "", "ask", "--model", model, "--read", document, "--session", session, "--compact", "4", "why?",
		"-n", "8")
	if after, err := os.ReadFile(session); err != nil || len(after) >= len(before) {
		t.Errorf("a compacted session has %d bytes, an exact one %d (%v)", len(after), len(before), err)
	}
	if again := done(t, "", "ask", "--session", session, "why?", "-n", "8"); again != first {
		t.Errorf("compacted: %q, then %q", first, again)
	}
	// A session names its model by a path that holds in other folders, too.
	t.Chdir(filepath.Dir(model))
	first = done(t, "", "ask", "--model", filepath.Base(model), "--read", document, "--session", session, "why?", "-n",
		"8")
	t.Chdir(dir)
	if again := done(t, "", "ask", "--session", session, "why?", "-n", "8"); again != first {
		t.Errorf("from another folder: %q, then %q", first, again)
	}
	var p Perplexity
	if err := json.Unmarshal([]byte(done(t, strings.Repeat("a text ", 100), "perplexity", model, "-", "--context", "64",
		"--json")), &p); err != nil || !(p.Perplexity > 1) || p.Tokens == 0 || p.Context != 64 {
		t.Errorf("%+v, %v", p, err)
	}
	if out := done(t, "", "info", model); !strings.HasPrefix(out, "llama: generate, 2 layers") {
		t.Error(out)
	}
}

func TestInterrupted(t *testing.T) {
	model := tiny.Folder(t, "llama")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, strings.NewReader(""), &out, &errs, []string{"generate", model, "a text"}); code != 130 ||
		!strings.Contains(errs.String(), "rfm: interrupted") {
		t.Errorf("exit %d, %s", code, &errs)
	}
}

// stopper interrupts a command at its first output.
type stopper struct {
	bytes.Buffer
	stop func()
}

func (s *stopper) Write(b []byte) (int, error) {
	s.stop()
	return s.Buffer.Write(b)
}

// A text that an interrupt cuts off ends its line, so that messages do not stick to it.
func TestInterruptedText(t *testing.T) {
	model := tiny.Folder(t, "llama")
	for stdin, args := range map[string][]string{"": {"generate", model, "a text"}, "Hello\n": {"chat", model}} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &stopper{stop: cancel}
		var errs bytes.Buffer
		if code := run(ctx, strings.NewReader(stdin), out, &errs, args); code != 130 ||
			!strings.HasSuffix(out.String(), "\n") || out.Len() < 2 {
			t.Errorf("%s: exit %d, %q", args[0], code, out)
		}
	}
}

func TestSearchCommand(t *testing.T) {
	model, dir := tiny.Folder(t, "bert"), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("what is looked for"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if out := done(t, "", "search", model, dir, "what is looked for"); !strings.HasPrefix(out,
			"1.000  a.txt:1  what is looked for") {
			t.Error(out)
		}
	}
}

func TestErrors(t *testing.T) {
	bert, llama, dir := tiny.Folder(t, "bert"), tiny.Folder(t, "llama"), t.TempDir()
	bad := filepath.Join(dir, "bad.csv")
	if err := os.WriteFile(bad, []byte("a,b\n1,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"embed", llama}, 1, "needs a model that embeds"},
		{[]string{"generate", bert, "x"}, 1, "needs a model that generates"},
		{[]string{"generate", llama, ""}, 2, "the prompt is empty"},
		{[]string{"generate", llama, "x", "--top-p", "0"}, 2, "--top-p is 0"},
		{[]string{"generate", llama, "x", "--precision", "int3"}, 2, "--precision \"int3\""},
		{[]string{"generate", filepath.Join(dir, "no.gguf"), "x"}, 1, "no such file"},
		{[]string{"generate", bad, "x"}, 1, "bad.csv: not a GGUF file"},
		{[]string{"embed", bert, bad}, 1, `no column "text" in the header (a, b)`},
		{[]string{"embed", bert, bad, "--column", "b", "-o", filepath.Join(dir, "x.doc")}, 2, "set --to"},
		{[]string{"embed", bert, "--from", "doc"}, 2, "--from \"doc\""},
		{[]string{"ask", "x"}, 2, "--session names no file"},
		{[]string{"ask", "x", "--session", bad, "--compact", "0"}, 2, "--compact is 0"},
		{[]string{"ask", "x", "--session", bad, "--compact", "8"}, 2, "--compact needs --read"},
		{[]string{"ask", "x", "--session", bad}, 1, "not a usable session"},
		{[]string{"ask", "x", "--session", bad, "--read", bad}, 2, "--read needs --model"},
		{[]string{"serve", bert, "--addr", "0.0.0.0:0"}, 2, "there is no token"},
		{[]string{"serve", bert, "--addr", "x"}, 2, "want host:port"},
		{[]string{"perplexity", llama, bad, "--context", "1"}, 2, "--context is 1"},
		{[]string{"nothing"}, 2, "unknown command"},
		{[]string{"generate", llama}, 2, "1 argument, want a model and a prompt"},
		{[]string{"generat"}, 2, `unknown command "generat" for "rfm", did you mean generate?`},
		{[]string{"info", "--jsno"}, 2, "unknown flag: --jsno, did you mean --json?"},
	} {
		code, _, errs := rfm(t, "", c.args...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("rfm %q: %d %s, want %d %s", c.args, code, errs, c.code, c.says)
		}
	}
	// What fails leaves no file.
	out := filepath.Join(dir, "out.npy")
	if code, _, _ := rfm(t, "", "embed", bert, bad, "-o", out); code != 1 {
		t.Error(code)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a file of a command that failed")
	}
}

func TestServeCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	ended := make(chan int, 1)
	var errs bytes.Buffer
	model := tiny.Folder(t, "bert")
	go func() {
		ended <- run(ctx, strings.NewReader(""), w, &errs, []string{"serve", model, "--addr", "127.0.0.1:0", "--json"})
		w.Close()
	}()
	var s Serving
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		t.Fatal(err)
	}
	defer debug.SetMemoryLimit(math.MaxInt64)
	if most := debug.SetMemoryLimit(-1); most > 2<<30 {
		t.Errorf("the program may take %d bytes, and requests 1 GiB", most)
	}
	a, err := http.Post(s.URL+"v1/embeddings", "application/json", strings.NewReader(`{"input": "x"}`))
	if err != nil || a.StatusCode != 200 {
		t.Fatalf("%v, %v", a, err)
	}
	a.Body.Close()
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("%d, %s", code, &errs)
	}
}

func TestCalibrateAndCheck(t *testing.T) {
	model, dir := tiny.Long(t), t.TempDir()
	text, fresh := filepath.Join(dir, "a.txt"), filepath.Join(dir, "b.txt")
	all := tiny.Text(16_000)
	for path, part := range map[string]string{text: all[:8000], fresh: all[8000:]} {
		if err := os.WriteFile(path, []byte(part), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := func() (names []string) {
		entries, err := os.ReadDir(model)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	before := files()
	if _, _, errs := rfm(t, "", "check", model, "--text", fresh, "--context", "300", "--windows",
		"1"); !strings.Contains(errs, ".calibration.json is not there") {
		t.Error(errs)
	}
	var c Calibrated
	if err := json.Unmarshal([]byte(done(t, "", "calibrate", model+"/", "--text", text, "--passages", "1", "--json")),
		&c); err != nil || c.File != model+".calibration.json" || c.Tokens != 2048 || len(c.Lengths) != 2 ||
		!(c.Lengths[1].Compact16 > c.Lengths[1].Compact8 && c.Lengths[1].Compact8 > 1) {
		t.Fatalf("%+v, %v", c, err)
	}
	if after := files(); !slices.Equal(before, after) {
		t.Errorf("files of the model: %v, want %v", after, before)
	}
	if out := done(t, "", "check", model, "--text", fresh, "--context", "600", "--windows", "1"); strings.Count(out,
		"\n") != 1 || !strings.Contains(out, "600 tokens to 1/8") {
		t.Error(out)
	}
	done(t, "", "generate", model, "a text", "-n", "4")
	done(t, "", "generate", model, "a text that is long enough", "-n", "4", "--compact", "2")
	done(t, "", "generate", model, "a text that is long enough", "-n", "4", "--compact", "2", "--precision", "int8")
	if out := done(t, "", "check", model, "--text", fresh, "--compact", "8,16", "--context", "600",
		"--windows", "1"); strings.Count(out, "\n") != 2 || !strings.Contains(out, "600 tokens to 1/16") {
		t.Error(out)
	}
	// A damaged file, and one that is not there.
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	bert := tiny.Folder(t, "bert")
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"generate", model, "x", "--compact", "2", "--calibration", bad}, 1, "not a usable calibration"},
		{[]string{"generate", model, "x", "--compact", "2", "--calibration", filepath.Join(dir, "no.json")}, 1,
			"no such file"},
		{[]string{"generate", model, "x", "--calibration", bad}, 2, "--compact, which is not set"},
		{[]string{"generate", tiny.Folder(t, "llama"), "x", "--compact", "2", "--calibration", c.File}, 1,
			"run rfm calibrate"},
		{[]string{"generate", model, "x", "--compact", "0"}, 2, "--compact is 0"},
		{[]string{"check", model, "--text", text, "--compact", "1"}, 2, "--compact is [1]"},
		{[]string{"calibrate", bert, "--text", text}, 1, "needs a model that generates"},
		{[]string{"calibrate", model}, 2, "--text names no file"},
		{[]string{"calibrate", model, "--text", text, "--passages", "0"}, 2, "--passages is 0"},
		{[]string{"check", model, "--text", text, "--context", "1"}, 2, "--context is 1"},
	} {
		code, _, errs := rfm(t, "", x.args...)
		if code != x.code || !strings.Contains(errs, x.says) {
			t.Errorf("rfm %q: %d %s, want %d %s", x.args, code, errs, x.code, x.says)
		}
	}
}

// Texts are ordered by their scores, which depend on the query, and search can use these instead of its own.
func TestRank(t *testing.T) {
	ranker, bert, dir := tiny.Folder(t, "rank"), tiny.Folder(t, "bert"), t.TempDir()
	lines := "the first line\nanother\n" + strings.Repeat("a long line ", 400) + "\n"
	read := func(query string) (list []Ranked) {
		code, out, errs := rfm(t, lines, "rank", ranker, query, "--json")
		if code != 0 || !strings.Contains(errs, "1 of 3 texts are longer") {
			t.Fatalf("%d, %s", code, errs)
		}
		for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
			var r Ranked
			if err := d.Decode(&r); err != nil {
				t.Fatal(err)
			}
			list = append(list, r)
		}
		return list
	}
	a, b := read("a question"), read("something else")
	if len(a) != 3 || a[0].Score < a[1].Score || a[1].Score < a[2].Score || a[0].Score == b[0].Score {
		t.Errorf("%+v, %+v", a, b)
	}
	if out := done(t, lines, "rank", ranker, "a question", "-n", "1"); strings.Count(out, "\n") != 1 {
		t.Error(out)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte(strings.Repeat(lines, 3)), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := done(t, "", "search", bert, dir, "a question")
	again := done(t, "", "search", bert, dir, "a question", "--rerank", ranker)
	if plain == again || strings.Count(plain, "\n") != strings.Count(again, "\n") {
		t.Errorf("%s\n%s", plain, again)
	}
	// Prompts change embeddings and with them the index.
	if code, _, errs := rfm(t, "", "search", bert, dir, "a question", "--prompt", "document=passage: "); code != 0 ||
		!strings.Contains(errs, "1 files read") {
		t.Errorf("%d, %s", code, errs)
	}
	x := done(t, "the first line", "embed", bert, "--as", "query", "--prompt", "query=query: ", "--to", "csv")
	if y := done(t, "query: the first line", "embed", bert, "--to", "csv"); x != y {
		t.Errorf("%s, want %s", x, y)
	}
	short := done(t, "the first line", "embed", bert, "--to", "csv", "--dimensions", "4")
	var sum float64
	for _, field := range strings.Split(strings.Split(short, "\n")[1], ",") {
		v, err := strconv.ParseFloat(field, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += v * v
	}
	if !strings.HasPrefix(short, "e0,e1,e2,e3\n") || math.Abs(sum-1) > 1e-5 {
		t.Errorf("%s, length² %v", short, sum)
	}
	for says, args := range map[string][]string{"has no classifier": {"rank", bert, "q"},
		"ranks texts (bert)":                   {"embed", ranker},
		"--dimensions is 33, the model has 32": {"embed", bert, "--dimensions", "33"}} {
		if code, _, errs := rfm(t, "x", args...); code == 0 || !strings.Contains(errs, says) {
			t.Errorf("rfm %q: %d, %s", args, code, errs)
		}
	}
}

// Every line gets an answer in the conversation so far, which is what one request with all turns would get.
func TestChatCommand(t *testing.T) {
	llama := tiny.Folder(t, "llama")
	out := done(t, "Hello\n\nAnd now?\n", "chat", llama, "-n", "6", "--system", "Be short.", "--json")
	var answers [2]models.Message
	d := json.NewDecoder(strings.NewReader(out))
	for i := range answers {
		if err := d.Decode(&answers[i]); err != nil || answers[i].Role != "assistant" {
			t.Fatalf("%s: %v", out, err)
		}
	}
	one := done(t, "", "generate", llama, "Hello", "--chat", "-n", "6", "--system", "Be short.", "--json")
	var g Generation
	if err := json.Unmarshal([]byte(one), &g); err != nil || g.Text != answers[0].Content {
		t.Errorf("%q, %q (%v)", g.Text, answers[0].Content, err)
	}
	if out := done(t, "Hello\nAnd now?\n", "chat", llama, "-n", "6"); strings.Count(out, "\n") < 2 {
		t.Errorf("%q", out)
	}
	if code, _, errs := rfm(t, "", "generate", llama, "x", "--system", "y"); code != 2 || !strings.Contains(errs,
		"--system needs --chat") {
		t.Errorf("%d, %s", code, errs)
	}
}
