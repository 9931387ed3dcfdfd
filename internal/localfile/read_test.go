package localfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/internal/localfile"
)

func TestReadChecksBeforeItReads(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	magic := localfile.Format{Want: "a drawing", Max: 9, Check: func(r io.ReaderAt, size int64) error {
		b := make([]byte, 4)
		if _, err := r.ReadAt(b, 0); err != nil || string(b) != "DRAW" || size < 4 {
			return errors.New("not a drawing")
		}
		return nil
	}}
	object := localfile.JSON("a choice", 9)
	for _, c := range []struct {
		path string
		f    localfile.Format
		want string // the error; "" if there is none
	}{
		{put("good", "DRAW12345"), magic, ""},
		{put("long", "DRAW123456"), magic, "long: 10 bytes or more, a drawing has at most 9"},
		{put("other", "PAINT"), magic, "other: not a drawing"},
		{dir, magic, "is a directory, want a drawing"},
		{filepath.Join(dir, "none"), magic, "no such file"},
		{"s3://bucket/x", magic, "local files only"},
		{put("object", " \n{\"a\":1}"), object, ""},
		{put("empty", ""), object, ""},
		{put("list", "[1]"), object, "list: not a choice: it does not begin with {"},
		{put("blank", strings.Repeat(" ", 600)), localfile.JSON("a choice", 1000), "it does not begin with {"},
		{put("objects", "{\"a\":1000}"), object, "objects: 10 bytes or more, a choice has at most 9"},
	} {
		b, err := localfile.Read(c.path, c.f)
		if c.want == "" {
			if text, _ := os.ReadFile(c.path); err != nil || !bytes.Equal(b, text) {
				t.Errorf("%s: %q, %v", c.path, b, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.path, err, c.want)
		}
	}
	if _, err := os.Stat("/dev/zero"); err != nil {
		return
	}
	for want, f := range map[string]localfile.Format{"not a regular file, want a drawing": magic,
		"does not begin with {":              {Want: "a choice", Max: 9, Pipes: true, Check: object.Check},
		"512 bytes or more, x has at most 9": {Want: "x", Max: 9, Pipes: true}} {
		if _, err := localfile.Read("/dev/zero", f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("/dev/zero: %v, want %s", err, want)
		}
	}
}

// A pipe of as many bytes as are allowed is read whole, one of more is refused and not cut.
func TestReadPipe(t *testing.T) {
	if _, err := os.Stat("/dev/fd"); err != nil {
		t.Skip("pipes have no names here")
	}
	const most = 1000
	for _, n := range []int{0, 1, most, most + 1} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		text := bytes.Repeat([]byte("x"), n)
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
		w.Close()
		f := localfile.Format{Want: "a text", Max: most, Pipes: true}
		b, err := localfile.Read(fmt.Sprintf("/dev/fd/%d", r.Fd()), f)
		r.Close()
		if n > most {
			if err == nil || !strings.Contains(err.Error(), "has at most") {
				t.Errorf("%d bytes: %d were read, %v", n, len(b), err)
			}
		} else if err != nil || !bytes.Equal(b, text) {
			t.Errorf("%d bytes: %d were read, %v", n, len(b), err)
		}
	}
}
