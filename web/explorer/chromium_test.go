package explorer_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// chromium drives a headless Chromium over a pair of pipes, by the DevTools protocol: JSON objects, each ended by a
// zero byte.
type chromium struct {
	t       *testing.T
	in      *os.File
	session string

	mu      sync.Mutex
	last    int
	waiting map[int]chan message
	console []string // errors, warnings and exceptions
}

type message struct {
	ID     int             `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
	Session string `json:"sessionId,omitempty"`
}

// newChromium starts the browser that an environment variable names; without one the test is skipped.
func newChromium(t *testing.T) *chromium {
	t.Helper()
	path := os.Getenv("RANDFEAT_CHROMIUM")
	if path == "" {
		t.Skip("RANDFEAT_CHROMIUM is not set: it names a Chromium")
	}
	toBrowser, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
		"--hide-scrollbars", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // descriptors 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	c := &chromium{t: t, in: in, waiting: map[int]chan message{}}
	t.Cleanup(func() {
		c.try("Browser.close", nil) // so that nothing writes into its folder any more
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
		}
		cancel()
		<-ended
		in.Close()
		out.Close()
	})
	go c.read(out)
	var target struct{ TargetID string }
	c.call(&target, "Target.createTarget", map[string]any{"url": "about:blank"})
	var attached struct{ SessionID string }
	c.call(&attached, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	c.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		c.call(nil, domain+".enable", nil)
	}
	c.call(nil, "Performance.enable", map[string]any{"timeDomain": "threadTicks"})
	return c
}

func (c *chromium) read(out *os.File) {
	r := bufio.NewReader(out)
	for {
		b, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(bytes.TrimSuffix(b, []byte{0}), &m) != nil {
			continue
		}
		c.mu.Lock()
		switch {
		case m.ID != 0:
			if w := c.waiting[m.ID]; w != nil {
				delete(c.waiting, m.ID)
				w <- m
			}
		case m.Method == "Runtime.exceptionThrown", m.Method == "Log.entryAdded",
			m.Method == "Runtime.consoleAPICalled" && !bytes.Contains(m.Params, []byte(`"type":"log"`)):
			c.console = append(c.console, m.Method+" "+string(m.Params))
		}
		c.mu.Unlock()
	}
}

func (c *chromium) try(method string, params any) (message, error) {
	c.mu.Lock()
	c.last++
	id, w := c.last, make(chan message, 1)
	c.waiting[id] = w
	c.mu.Unlock()
	p, err := json.Marshal(params)
	if err != nil {
		return message{}, err
	}
	if params == nil {
		p = []byte("{}")
	}
	b, err := json.Marshal(message{ID: id, Method: method, Params: p, Session: c.session})
	if err != nil {
		return message{}, err
	}
	if _, err := c.in.Write(append(b, 0)); err != nil {
		return message{}, err
	}
	select {
	case m := <-w:
		if m.Error != nil {
			return m, fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		return m, nil
	case <-time.After(2 * time.Minute):
		return message{}, fmt.Errorf("%s: no answer", method)
	}
}

// call sends a command and decodes its result.
func (c *chromium) call(result any, method string, params any) {
	c.t.Helper()
	m, err := c.try(method, params)
	if err == nil && result != nil {
		err = json.Unmarshal(m.Result, result)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// eval is the JSON of what a script gives, after it if it is a promise.
func (c *chromium) eval(result any, script string) {
	c.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	c.call(&r, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true})
	if r.ExceptionDetails != nil {
		c.t.Fatalf("%s: %s", script, r.ExceptionDetails)
	}
	if result != nil {
		if err := json.Unmarshal(r.Result.Value, result); err != nil {
			c.t.Fatalf("%s gives %s: %v", script, r.Result.Value, err)
		}
	}
}

// until waits for a script to give true.
func (c *chromium) until(script string) {
	c.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		var ok bool
		c.eval(&ok, "!!("+script+")")
		if ok {
			return
		}
		if time.Now().After(deadline) {
			var text string
			c.eval(&text, "document.body.innerText.slice(0, 2000)")
			c.t.Fatalf("%s does not come true; console: %v; page:\n%s", script, c.messages(), text)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *chromium) messages() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.console...)
}

// size sets the window, and light or dark colours.
func (c *chromium) size(width, height int, scheme string) {
	c.t.Helper()
	c.call(nil, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height,
		"deviceScaleFactor": 1, "mobile": width < 600})
	c.call(nil, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}}})
}

// busy is the processor time of the page's thread, in seconds.
func (c *chromium) busy() float64 {
	c.t.Helper()
	var m struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	c.call(&m, "Performance.getMetrics", nil)
	for _, v := range m.Metrics {
		if v.Name == "TaskDuration" {
			return v.Value
		}
	}
	return 0
}

// shoot writes the whole page as a picture.
func (c *chromium) shoot(path string) {
	c.t.Helper()
	var shot struct{ Data string }
	c.call(&shot, "Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true})
	b, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(path, b, 0o666)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}
