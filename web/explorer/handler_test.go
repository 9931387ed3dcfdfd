package explorer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat/web/explorer"
	"github.com/randfeat/randfeat/web/explorer/internal/model"
)

func serve(t *testing.T) *httptest.Server {
	t.Helper()
	h, err := explorer.Handler()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// ask posts a question as the page does.
func ask(ctx context.Context, t *testing.T, url, request string, header http.Header, files ...string) (*http.Response,
	error) {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	if err := w.WriteField("request", request); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		p, err := w.CreateFormFile("file", "blob")
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(p, f)
	}
	w.Close()
	r, err := http.NewRequestWithContext(ctx, "POST", url, &body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		r.Header[k] = v
	}
	r.Header.Set("Content-Type", w.FormDataContentType())
	return http.DefaultClient.Do(r)
}

// The server answers as the library does, and says what is wrong with a question.
func TestHandler(t *testing.T) {
	s := serve(t)
	table := "a,b\n" + strings.Repeat("1,2\n3,5\n2,1\n7,3\n", 30)
	for _, c := range []struct {
		name, request string
		files         []string
	}{
		{"registry", `{}`, nil},
		{"draw", `{"coupling":"simplex","dim":3,"rows":4,"seed":1,"unit":true}`, nil},
		{"draw", `{"coupling":"simplex","dimension":3}`, nil},
		{"advise", `{"kernel":"gaussian","features":8,"names":["t.csv"],"seed":1}`, []string{table}},
		{"advise", `{"kernel":"gaussian","features":8,"names":["t.csv"],"seed":1}`, nil},
		{"nothing", `{}`, nil},
	} {
		var files [][]byte
		for _, f := range c.files {
			files = append(files, []byte(f))
		}
		want, wrong := model.New().Call(t.Context(), c.name, []byte(c.request), files...)
		a, err := ask(t.Context(), t, s.URL+"/call/"+c.name, c.request, nil, c.files...)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(a.Body)
		a.Body.Close()
		lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
		var got struct {
			Answer json.RawMessage
			Error  string
		}
		if err := json.Unmarshal(lines[len(lines)-1], &got); err != nil || a.StatusCode != 200 {
			t.Fatalf("%s %s: %s %v %.200s", c.name, c.request, a.Status, err, b)
		}
		if wrong != nil && got.Error != wrong.Error() || wrong == nil && !sameAnswer(got.Answer, want) {
			t.Errorf("%s %s:\n%.300s, want\n%.300s %v", c.name, c.request, lines[len(lines)-1], want, wrong)
		}
	}
	// Another site may not make this machine compute, and a question is a form.
	a, err := ask(t.Context(), t, s.URL+"/call/registry", `{}`, http.Header{"Origin": {"https://example.com"},
		"Sec-Fetch-Site": {"cross-site"}})
	if err != nil || a.StatusCode != http.StatusForbidden {
		t.Errorf("another site: %v %v", a, err)
	}
	if a, err = http.Post(s.URL+"/call/registry", "application/json", strings.NewReader(`{}`)); err != nil ||
		a.StatusCode != http.StatusBadRequest {
		t.Errorf("no form: %v %v", a, err)
	}
}

// sameAnswer compares JSON, timings aside.
func sameAnswer(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	a, _ = json.Marshal(x)
	b, _ = json.Marshal(y)
	return bytes.Equal(a, b)
}

// Who stops the advisor stops its computation: the next question need not wait for it.
func TestHandlerStops(t *testing.T) {
	s := serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	long := `{"kernel":"softmax","features":512,"names":[],"seed":1}`
	if a, err := ask(ctx, t, s.URL+"/call/advise", long, nil); err == nil {
		_, err = io.ReadAll(a.Body)
		if a.Body.Close(); err == nil {
			t.Skip("the advisor was done before it was stopped")
		}
	}
	a, err := ask(t.Context(), t, s.URL+"/call/advise", `{"kernel":"none"}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if b, _ := io.ReadAll(a.Body); !strings.Contains(string(b), "error") {
		t.Errorf("%s", b)
	}
}
