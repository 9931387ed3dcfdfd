package serve_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/randfeat/randfeat/models"
	"github.com/randfeat/randfeat/models/internal/tiny"
	"github.com/randfeat/randfeat/models/serve"
)

// start serves a tiny model; the function it returns stops the server and waits for it.
func start(t *testing.T, kind string, opt serve.Options) (url string, stop func()) {
	t.Helper()
	m, err := models.Open(tiny.Folder(t, kind), models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opt.Name = "tiny"
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s := serve.New(m, opt)
	go func() { done <- s.Run(ctx, ln) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("the server ended with %v", err)
			}
			m.Close()
		})
	}
	t.Cleanup(stop)
	return "http://" + ln.Addr().String(), stop
}

func post(t *testing.T, url, path, body string) (int, string) {
	t.Helper()
	r, err := http.Post(url+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func TestEmbeddings(t *testing.T) {
	url, _ := start(t, "bert", serve.Options{LoopbackHosts: true})
	status, body := post(t, url, "/v1/embeddings", `{"input": ["a text", "another"], "model": "x"}`)
	var a struct {
		Data []struct {
			Index     int
			Embedding []float32
		}
		Usage serve.Usage
	}
	if err := json.Unmarshal([]byte(body), &a); status != 200 || err != nil || len(a.Data) != 2 ||
		a.Data[1].Index != 1 || len(a.Data[0].Embedding) != 32 || a.Usage.TotalTokens == 0 {
		t.Fatalf("%d %s (%v)", status, body, err)
	}
	_, body = post(t, url, "/v1/embeddings", `{"input": "another", "encoding_format": "base64"}`)
	var coded struct{ Data []struct{ Embedding string } }
	if err := json.Unmarshal([]byte(body), &coded); err != nil {
		t.Fatal(err)
	}
	if b, err := base64.StdEncoding.DecodeString(coded.Data[0].Embedding); err != nil || len(b) != 4*32 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if status, body := post(t, url, "/v1/completions", `{"prompt": "x"}`); status != 404 {
		t.Errorf("%d %s", status, body)
	}
}

const prompt = `{"prompt": "a text", "max_tokens": 12, "temperature": 1, "seed": 3`

// The events of a stream make the text that comes at once without it.
func TestCompletions(t *testing.T) {
	url, _ := start(t, "llama", serve.Options{})
	status, body := post(t, url, "/v1/completions", prompt+`}`)
	var a serve.Completion
	if err := json.Unmarshal([]byte(body), &a); status != 200 || err != nil || len(a.Choices) != 1 ||
		a.Choices[0].Reason == nil || a.Usage.CompletionTokens == 0 || *a.Choices[0].Text == "" {
		t.Fatalf("%d %s (%v)", status, body, err)
	}
	status, events := post(t, url, "/v1/completions", prompt+`, "stream": true}`)
	text, last := "", ""
	for line := range strings.Lines(events) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		if last = data; data == "[DONE]" {
			continue
		}
		var e serve.Completion
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		text += *e.Choices[0].Text
	}
	if status != 200 || text != *a.Choices[0].Text || last != "[DONE]" {
		t.Errorf("%d: %q and %q, want %q", status, text, last, *a.Choices[0].Text)
	}
	if status, body := post(t, url, "/v1/embeddings", `{"input": "x"}`); status != 404 {
		t.Errorf("%d %s", status, body)
	}
	r, err := http.Get(url + "/v1/models")
	if err != nil || r.StatusCode != 200 {
		t.Error(err)
	}
	r.Body.Close()
}

func TestRefusals(t *testing.T) {
	url, _ := start(t, "llama", serve.Options{Limits: serve.Limits{Body: 4000, Tokens: 100, Memory: 20000}})
	for _, c := range []struct {
		body string
		want int
		says string
	}{
		{`{`, 400, "no such request"},
		{`{} {}`, 400, "more than one object"},
		{`{"prompt": "a", "top_k": 3}`, 400, `the field "top_k" is not supported`},
		{`{"prompt": "a", "response_format": {"type": "json_object"}}`, 400, `the field "response_format" is not`},
		{`{}`, 400, "0 prompts"},
		{`{"prompt": 1}`, 400, "want a text"},
		{`{"prompt": ["a", "b"]}`, 400, "2 prompts"},
		{`{"prompt": ""}`, 400, "0 tokens"},
		{`{"prompt": "a", "max_tokens": 101}`, 400, "max_tokens is out of range"},
		{`{"prompt": "a", "max_tokens": 0}`, 400, "max_tokens is out of range"},
		{`{"prompt": "a", "temperature": -1}`, 400, "temperature is out of range"},
		{`{"prompt": "a", "top_p": 0}`, 400, "top_p is out of range"},
		{`{"prompt": "a", "stop": [""]}`, 400, "stop is out of range"},
		{`{"prompt": "a", "n": 2}`, 400, "n is not supported"},
		{`{"prompt": "a", "logprobs": 1}`, 400, "logprobs is not supported"},
		{`{"prompt": "a", "max_tokens": 90}`, 400, "this server gives 20000"},
		{`{"prompt": "` + strings.Repeat("a b ", 300) + `"}`, 400, "more than 2"}, // the rest is not encoded,
		{`{"prompt": "` + strings.Repeat("x", 5000) + `"}`, 413, "the limit is 4000"},
	} {
		status, body := post(t, url, "/v1/completions", c.body)
		var p serve.Problem
		if err := json.Unmarshal([]byte(body), &p); status != c.want || err != nil ||
			!strings.Contains(p.Error.Message, c.says) {
			t.Errorf("%.60s: %d %s, want %d %s", c.body, status, body, c.want, c.says)
		}
	}
	r, err := http.Post(url+"/v1/completions", "text/plain", strings.NewReader(prompt+`}`))
	if err != nil || r.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("%v, %v", r.Status, err)
	}
	r.Body.Close()
}

func TestToken(t *testing.T) {
	url, _ := start(t, "bert", serve.Options{Token: "secret"})
	for token, want := range map[string]int{"": 401, "Bearer no": 401, "secret": 401, "Bearer secret": 200} {
		r, err := http.NewRequest("GET", url+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", token)
		a, err := http.DefaultClient.Do(r)
		if err != nil || a.StatusCode != want {
			t.Errorf("%q: %v, %v", token, a.StatusCode, err)
		}
		a.Body.Close()
	}
	if r, err := http.Get(url + "/readyz"); err != nil || r.StatusCode != 200 {
		t.Error(err)
	}
	local, _ := start(t, "bert", serve.Options{LoopbackHosts: true})
	r, err := http.NewRequest("GET", local+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "evil.example"
	if a, err := http.DefaultClient.Do(r); err != nil || a.StatusCode != 403 {
		t.Errorf("%v, %v", a, err)
	}
}

// A client that goes away ends its generation: with one worker, the next client would otherwise wait for all of it.
func TestClientGone(t *testing.T) {
	url, _ := start(t, "llama", serve.Options{Limits: serve.Limits{Work: 1, InFlight: 4}})
	for range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		r, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/completions",
			strings.NewReader(`{"prompt": "a text", "max_tokens": 200, "stream": true}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if a.StatusCode != 200 {
			// The requests before this one have ended only when the server has noticed that their clients are gone.
			io.Copy(io.Discard, a.Body)
			a.Body.Close()
			cancel()
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if _, err := bufio.NewReader(a.Body).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		cancel()
		a.Body.Close()
	}
	for try := 0; ; try++ {
		status, body := post(t, url, "/v1/completions", prompt+`}`)
		if status == 200 {
			break
		}
		if try == 100 || status != 429 {
			t.Fatalf("%d %s", status, body)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Readers that take nothing keep connections, not the one worker.
func TestSlowReaders(t *testing.T) {
	url, stop := start(t, "llama", serve.Options{Limits: serve.Limits{Work: 1, Write: time.Second,
		Shutdown: 5 * time.Second}})
	address := strings.TrimPrefix(url, "http://")
	const body = `{"prompt": "a text", "max_tokens": 5, "stream": true}`
	for range 200 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			len(body), body)
	}
	if status, answer := post(t, url, "/v1/completions", prompt+`}`); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	stop()
}

// A server that stops lets a stream finish.
func TestShutdown(t *testing.T) {
	url, stop := start(t, "llama", serve.Options{})
	r, err := http.Post(url+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt": "a text", "max_tokens": 150, "stream": true, "temperature": 0}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b := bufio.NewReader(r.Body)
	if _, err := b.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	rest, err := io.ReadAll(b)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
	<-stopped
}

// FuzzCompletions: any body gives an answer that is JSON or events, and no panic.
func FuzzCompletions(f *testing.F) {
	f.Add(prompt + `}`)
	f.Add(`{"prompt": ["a"], "stop": "b", "stream": true, "top_p": 0.5}`)
	m, err := models.Open(tiny.Folder(f, "llama"), models.Options{})
	if err != nil {
		f.Fatal(err)
	}
	s := serve.New(m, serve.Options{Limits: serve.Limits{Tokens: 8}})
	f.Fuzz(func(t *testing.T, body string) {
		w := &recorder{header: http.Header{}}
		r, err := http.NewRequest("POST", "http://x/v1/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		s.ServeHTTP(w, r)
		if w.status >= 500 || w.body.Len() == 0 {
			t.Fatalf("%d %q", w.status, w.body.String())
		}
	})
}

type recorder struct {
	header http.Header
	status int
	body   strings.Builder
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
func (r *recorder) Flush()                      {}

// Conversations are answered with the tokens that generation from the rendered text gives, at once and piece by piece.
func TestChatCompletions(t *testing.T) {
	url, _ := start(t, "llama", serve.Options{Limits: serve.Limits{Tokens: 100}})
	const q = `{"model": "x", "seed": 1, "max_completion_tokens": 12, "messages": [{"role": "system", "content": "Be short."},
		{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]`
	status, body := post(t, url, "/v1/chat/completions", q+"}")
	var c serve.Completion
	if err := json.Unmarshal([]byte(body), &c); status != 200 || err != nil || c.Object != "chat.completion" ||
		c.Choices[0].Message == nil || c.Choices[0].Message.Role != "assistant" || c.Usage.CompletionTokens == 0 {
		t.Fatalf("%d %s (%v)", status, body, err)
	}
	_, events := post(t, url, "/v1/chat/completions", q+`, "stream": true, "stream_options": {"include_usage": true}}`)
	var text strings.Builder
	lines := strings.Split(strings.TrimSpace(events), "\n\n")
	for i, line := range lines[:len(lines)-1] {
		var e serve.Completion
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &e); err != nil ||
			e.Object != "chat.completion.chunk" {
			t.Fatalf("%s: %v", line, err)
		}
		switch {
		case i == len(lines)-2: // the usage alone
			if len(e.Choices) != 0 || e.Usage == nil || *e.Usage != *c.Usage {
				t.Errorf("the last event is %s", line)
			}
		case e.Usage != nil || (e.Choices[0].Delta.Role == "assistant") != (i == 0):
			t.Errorf("event %d is %s", i, line)
		default:
			text.WriteString(*e.Choices[0].Delta.Content)
		}
	}
	if lines[len(lines)-1] != "data: [DONE]" || text.String() != *c.Choices[0].Message.Content {
		t.Errorf("%q in pieces, %q at once", text.String(), *c.Choices[0].Message.Content)
	}
	long := strings.Repeat("a ", 500)
	for body, want := range map[string]string{
		`{}`: "0 messages",
		q + `, "response_format": {"type": "json_object"}}`:                    "response_format is not supported",
		q + `, "tools": [{"type": "function"}]}`:                               "tools is not supported",
		q + `, "top_k": 5}`:                                                    `"top_k" is not supported`,
		q + `, "logprobs": true}`:                                              "logprobs is not supported",
		`{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`: `the type "image_url"`,
		`{"messages": [{"role": "user", "content": "a", "tool_calls": [1]}]}`:  `the field "tool_calls"`,
		`{"messages": [{"role": "user", "content": "a"}], "max_tokens": 1000}`: "max_tokens is out of range",
		`{"messages": [{"role": "user", "content": "` + long + `"}]}`:          "context",
	} {
		if status, answer := post(t, url, "/v1/chat/completions", body); status != 400 || !strings.Contains(
			strings.ReplaceAll(answer, `\"`, `"`), want) {
			t.Errorf("%.60s: %d %s, want %s", body, status, answer, want)
		}
	}
	if status, body := post(t, url, "/v1/responses", q+"}"); status != 404 ||
		!strings.Contains(body, "chat/completions") {
		t.Errorf("%d %s", status, body)
	}
	for name, want := range map[string]int{"tiny": 200, "other": 404} {
		r, err := http.Get(url + "/v1/models/" + name)
		if err != nil || r.StatusCode != want {
			t.Errorf("%s: %v, %v", name, r, err)
		}
		r.Body.Close()
	}
}

// The calls of OpenAI's Python client work, where Python has it.
func TestPythonClient(t *testing.T) {
	python := "python3"
	if p := os.Getenv("RANDFEAT_PYTHON"); p != "" {
		python = p
	}
	if err := exec.Command(python, "-c", "import openai").Run(); err != nil {
		t.Skip("no Python with the package openai (RANDFEAT_PYTHON names another)")
	}
	decoder, _ := start(t, "llama", serve.Options{})
	encoder, _ := start(t, "bert", serve.Options{})
	const program = `
import sys, openai
d, e = (openai.OpenAI(base_url=u + "/v1", api_key="x", max_retries=0) for u in sys.argv[1:3])
assert [m.id for m in d.models.list()] == ["tiny"] and d.models.retrieve("tiny").id == "tiny"
q = dict(model="tiny", messages=[{"role": "user", "content": "Hello"}], max_tokens=8, seed=1)
c = d.chat.completions.create(**q)
text = c.choices[0].message.content
assert c.usage.completion_tokens > 0 and c.choices[0].finish_reason in ("stop", "length")
events = list(d.chat.completions.create(**q, stream=True, stream_options={"include_usage": True}))
assert events[-1].usage.completion_tokens == c.usage.completion_tokens
assert "".join(x.choices[0].delta.content or "" for x in events if x.choices) == text
p = d.completions.create(model="tiny", prompt="Once", max_tokens=4, stop=["zzz"])
assert p.choices[0].text is not None and p.usage.prompt_tokens > 0
v = e.embeddings.create(model="tiny", input=["a", "b"], dimensions=8)
assert [len(x.embedding) for x in v.data] == [8, 8]
for call in (lambda: d.responses.create(model="tiny", input="x"), lambda: d.models.retrieve("none"),
             lambda: d.chat.completions.create(**q, response_format={"type": "json_object"}),
             lambda: d.chat.completions.create(**q, tools=[{"type": "function", "function": {"name": "f"}}])):
    try:
        call()
        sys.exit("a call that is not supported was answered")
    except openai.APIStatusError as err:
        assert err.status_code in (400, 404), err
print("done")
`
	out, err := exec.Command(python, "-c", program, decoder, encoder).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "done") {
		t.Errorf("%v: %s", err, out)
	}
}
