package datasets

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write list.json.gz")

// The embedded list is list.json.
func TestListIsCompressed(t *testing.T) {
	want, err := os.ReadFile("list.json")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(want); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if listed = b.Bytes(); os.WriteFile("list.json.gz", listed, 0o644) != nil {
			t.Fatal("list.json.gz was not written")
		}
	}
	r, err := gzip.NewReader(bytes.NewReader(listed))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("list.json.gz is not list.json (%v): run go test ./internal/datasets -run TestListIsCompressed -update", err)
	}
}
