package serve

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat/machine"
)

// multipartForm is what a browser sends; a field named file is a file.
func multipartForm(t testing.TB, fields ...string) (content, body string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		part, err := w.CreateFormField(fields[i])
		if fields[i] == "file" {
			part, err = w.CreateFormFile("file", "rows.csv")
		}
		check(t, err)
		_, err = io.WriteString(part, fields[i+1])
		check(t, err)
	}
	check(t, w.Close())
	return w.FormDataContentType(), b.String()
}

// The form answers without a browser: table, file, options, errors, and nothing of the rows is taken for HTML.
func TestPageForm(t *testing.T) {
	m := fitted(t, machine.KindLogistic, 1)
	s := serverOf(t, m, Options{})
	w := newRecorder()
	s.ServeHTTP(w, newGet("/"))
	page := w.Body.String()
	if w.Code != 200 || !strings.Contains(page, "a,b,c") || !strings.Contains(page, `name="probabilities"`) ||
		strings.Contains(page, `name="variance"`) {
		t.Errorf("%d %s", w.Code, page)
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") ||
		strings.Contains(csp, "unsafe") {
		t.Errorf("policy %q", csp)
	}
	if regexp.MustCompile(`(?i)<script>|style=|\son[a-z]+=|https?://`).MatchString(page) {
		t.Error("the page has code in itself or uses other sites")
	}
	rows := table(4, 1200, true)
	rows[0][0] = "<img src=x onerror=alert(1)>"
	want := direct(t, m, machine.TableOptions{Probabilities: true}, rows)

	content, body := multipartForm(t, "rows", "ignored", "file", string(csvOf(rows)), "probabilities", "true", "answer",
		"table")
	page = post(s, "/", content, body).Body.String()
	if strings.Contains(page, "<img") || strings.Contains(page, "<b>yes") ||
		!strings.Contains(page, "&lt;img src=x onerror=alert(1)&gt;") {
		t.Error("a cell became HTML")
	}
	if n := strings.Count(page, "<tr><td>") - len(m.Schema.Fields); n != pageRows {
		t.Errorf("%d rows are shown", n)
	}
	if !strings.Contains(page, "The first 1000 of 1200 rows") || !strings.Contains(page, `title="`+want[0][2]+`"`) {
		t.Error("the table is not that of the predictions")
	}

	content, body = multipartForm(t, "rows", string(csvOf(rows)), "file", "", "answer", "csv")
	w = post(s, "/", content, body)
	if lines := strings.Split(w.Body.String(), "\n"); len(lines) != 1202 || lines[2] != want[1][0]+","+want[1][1] ||
		!strings.Contains(w.Header().Get("Content-Disposition"), "predictions.csv") {
		t.Errorf("the file: %d lines, %v", len(lines), w.Header())
	}
	for _, c := range []struct {
		body, says string
		status     int
	}{
		{"rows=a,b%0A1,2", "columns missing", 400},
		{"rows=a,b,c%0A%3Cb%3E,2,red", "Row 1: column &#34;a&#34; is &#34;&lt;b&gt;&#34;", 400},
		{"rows=", "empty", 400},
		{`rows={"rows":[{"a":1,"b":2,"c":"red"}]}`, "<h3>Predictions", 200},
		{`rows={"a":1,"b":2,"c":"red"}%0A{"a":2,"b":2,"c":"red"}`, "<h3>Predictions", 200},
		{"rows=%zz", "form", 400},
	} {
		w := post(s, "/", "application/x-www-form-urlencoded", c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d, no %q in %s", c.body, w.Code, c.says, w.Body)
		}
	}
	if w := post(s, "/", "application/x-www-form-urlencoded", "rows=", "Origin", "https://evil.example",
		"Sec-Fetch-Site", "cross-site"); w.Code != http.StatusForbidden {
		t.Errorf("a form of another site: %d", w.Code)
	}
	if w := post(s, "/", "text/plain", "rows="); w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("no form: %d", w.Code)
	}
}

// browser drives Chromium by the WebDriver protocol (https://www.w3.org/TR/webdriver2/).
type browser struct {
	t       *testing.T
	session string // URL
}

const elementKey = "element-6066-11e4-a52e-4f735466cecf"

// openBrowser starts a headless browser, or skips the test if there is none.
func openBrowser(t *testing.T, javascript bool) *browser {
	t.Helper()
	driver, err := exec.LookPath("chromedriver")
	if err != nil {
		t.Skip("no chromedriver: install Chromium and its driver (Debian: apt-get install chromium chromium-driver) to test the page in a browser")
	}
	cmd := exec.Command(driver, "--port=0")
	ownGroup(cmd)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		killGroup(cmd.Process)
		cmd.Wait()
	})
	address := ""
	lines := bufio.NewScanner(out)
	for address == "" && lines.Scan() {
		if m := regexp.MustCompile(`started successfully on port (\d+)`).FindStringSubmatch(lines.Text()); m != nil {
			address = "http://127.0.0.1:" + m[1]
		}
	}
	if address == "" {
		t.Fatalf("chromedriver does not start: %v", lines.Err())
	}
	go io.Copy(io.Discard, out)
	b := &browser{t: t, session: address}
	setting := 1
	if !javascript {
		setting = 2
	}
	var made struct{ SessionID string }
	err = b.call(http.MethodPost, "/session", map[string]any{
		"capabilities": map[string]any{"alwaysMatch": map[string]any{
			"goog:loggingPrefs": map[string]any{"browser": "ALL"},
			"goog:chromeOptions": map[string]any{
				"args": []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
					"--user-data-dir=" + t.TempDir()},
				"prefs": map[string]any{"profile.managed_default_content_settings.javascript": setting},
			}}}}, &made)
	if err != nil {
		t.Skipf("chromedriver cannot start Chromium: %v", err)
	}
	b.session += "/session/" + made.SessionID
	t.Cleanup(func() { b.call(http.MethodDelete, "", nil, nil) })
	return b
}

func (b *browser) call(method, path string, in, out any) error {
	var body io.Reader
	if method == http.MethodPost {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequest(method, b.session+path, body)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, text)
	}
	return json.Unmarshal(text, &struct{ Value any }{out})
}

func (b *browser) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.must(b.call(http.MethodPost, "/url", map[string]string{"url": url}, nil))
}

// find waits for elements.
func (b *browser) find(css string) []string {
	b.t.Helper()
	for range 200 {
		var found []map[string]string
		b.must(b.call(http.MethodPost, "/elements", map[string]string{"using": "css selector", "value": css}, &found))
		if len(found) > 0 {
			var ids []string
			for _, f := range found {
				ids = append(ids, f[elementKey])
			}
			return ids
		}
		time.Sleep(25 * time.Millisecond)
	}
	b.t.Fatalf("no %s on the page", css)
	return nil
}

func (b *browser) click(css string) {
	b.t.Helper()
	b.must(b.call(http.MethodPost, "/element/"+b.find(css)[0]+"/click", struct{}{}, nil))
}

func (b *browser) write(css, text string) {
	b.t.Helper()
	id := b.find(css)[0]
	if css != "#file" {
		b.must(b.call(http.MethodPost, "/element/"+id+"/clear", struct{}{}, nil))
	}
	b.must(b.call(http.MethodPost, "/element/"+id+"/value", map[string]string{"text": text}, nil))
}

// texts reads elements, closed details included. It starts again if the page replaces them meanwhile.
func (b *browser) texts(css string) []string {
	b.t.Helper()
again:
	for {
		var out []string
		for _, id := range b.find(css) {
			var text string
			err := b.call(http.MethodGet, "/element/"+id+"/property/textContent", nil, &text)
			if err != nil && strings.Contains(err.Error(), "stale element reference") {
				continue again
			}
			b.must(err)
			out = append(out, text)
		}
		return out
	}
}

// errors are what the browser complained about.
func (b *browser) errors() (out []string) {
	b.t.Helper()
	var logs []struct{ Level, Message string }
	b.must(b.call(http.MethodPost, "/se/log", map[string]string{"type": "browser"}, &logs))
	for _, l := range logs {
		if l.Level == "SEVERE" && !strings.Contains(l.Message, "400 (Bad Request)") { // those of the test
			out = append(out, l.Message)
		}
	}
	return out
}

// A person types rows, uploads a file, makes a mistake and sees what is wrong, with and without JavaScript.
func TestPageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	m := fitted(t, machine.KindLogistic, 1)
	rows := table(4, 3, true)
	rows[1][0] = "<script>document.title='broken'</script>"
	want := direct(t, m, machine.TableOptions{}, rows)
	more := direct(t, m, machine.TableOptions{Probabilities: true}, rows)
	file := filepath.Join(t.TempDir(), "rows.csv")
	check(t, os.WriteFile(file, csvOf(rows), 0o600))
	for _, javascript := range []bool{true, false} {
		t.Run(fmt.Sprintf("javascript=%v", javascript), func(t *testing.T) {
			s := serverOf(t, m, Options{LoopbackHosts: true})
			url, stop := running(t, s)
			b := openBrowser(t, javascript)
			b.open(url + "/")

			if javascript { // the answer follows the fields
				waitFor(t, func() bool { return len(b.find("#result .value")) == 1 })
				b.write("#c0", "1.5")
				waitFor(t, func() bool { return strings.Contains(strings.Join(b.texts("#result pre"), " "), "1.5") })
			}
			// The example on the page can be predicted as it is.
			b.click("button[value=table]")
			waitFor(t, func() bool { return len(b.find("#predictions tbody tr")) == 1 })
			got := b.texts("#predictions thead th")
			if !slices.Equal(got, []string{"row", "prediction", "a", "b", "c"}) {
				t.Errorf("columns %q", got)
			}
			// Typed rows.
			b.write("#rows", string(csvOf(rows)))
			b.click("button[value=table]")
			waitFor(t, func() bool { return len(b.find("#predictions tbody tr")) == len(rows) })
			got = b.texts("#predictions tbody td")
			for i := range rows {
				if row := got[6*i : 6*i+3]; !slices.Equal(row, append([]string{fmt.Sprint(i + 1)}, want[i]...)) {
					t.Errorf("row %d shows %q, want %q", i+1, row, want[i])
				}
			}
			if javascript { // a change of the fields does not stop the rows
				const both = `ask("table", document.getElementById("table")); ask("one", document.getElementById("result"))`
				b.must(b.call(http.MethodPost, "/execute/sync", map[string]any{"script": both, "args": []any{}}, nil))
				b.find("#table:not([aria-busy])")
			}
			// A mistake.
			b.write("#rows", "a,b,c\n1,<b>two</b>,red\n")
			b.click("button[value=table]")
			waitFor(t, func() bool { return len(b.find("#table .problem")) == 1 })
			if got := b.texts("#table .problem")[0]; got != `Row 1: column "b" is "<b>two</b>", want a number` {
				t.Errorf("the mistake shows %q", got)
			}
			// A file, with probabilities.
			b.write("#file", file)
			b.click("input[name=probabilities]")
			b.click("button[value=table]")
			waitFor(t, func() bool { return len(b.find("#predictions thead th")) > 6 })
			if got := b.texts("#predictions tbody td"); got[1] != more[0][0] || got[2] != more[0][1] {
				t.Errorf("the file shows %q, want %q", got, more)
			}
			var title string
			b.must(b.call(http.MethodGet, "/title", nil, &title))
			if title != "randfeat" {
				t.Errorf("the title is %q", title)
			}
			if e := b.errors(); len(e) > 0 {
				t.Errorf("the browser complains: %q", e)
			}
			if err := stop(); err != nil && !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
	}
}

// waitFor polls, at most 5 s.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for range 200 {
		if ok() {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatal("waited in vain")
}
