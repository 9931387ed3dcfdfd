package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/memfs"

	"github.com/randfeat/randfeat/beam/internal/fakes3"
	"github.com/randfeat/randfeat/beam/internal/store"
	"github.com/randfeat/randfeat/beam/internal/work"
	"github.com/randfeat/randfeat/data/files"
)

const testBucket = "tables"

// Fit, evaluate and predict with all files in a bucket: the model has the bytes of one of local files, and nothing else
// is left behind. Beam's memory is always tried; s3 and gs need a server, which a Python package brings.
func TestStores(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		files.RegisterStore("memfs", store.Tables)
		throughStore(t, "memfs://"+testBucket)
	})
	t.Run("fake s3", func(t *testing.T) {
		fakes3.Start(t)
		throughStore(t, "s3://"+testBucket)
	})
	t.Run("s3", func(t *testing.T) {
		address := serve(t, "moto_server", "pip install 'moto[server,s3]'", func(host, port string) []string {
			return []string{"-H", host, "-p", port}
		})
		for k, v := range map[string]string{"AWS_ENDPOINT_URL": "http://" + address, "AWS_REGION": "us-east-1",
			"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
			// The server sends no checksums, and every answer would be noted.
			"AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required"} {
			t.Setenv(k, v)
		}
		request, err := http.NewRequest(http.MethodPut, "http://"+address+"/"+testBucket, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("no bucket: %v, %v", answer, err)
		}
		answer.Body.Close()
		throughStore(t, "s3://"+testBucket)
	})
	t.Run("gs", func(t *testing.T) {
		start := func(host, port string) []string {
			return []string{"start", "--host=" + host, "--port=" + port, "--in-memory",
				"--default-bucket=" + testBucket}
		}
		address := serve(t, "gcp-storage-emulator", "pip install gcp-storage-emulator", start)
		t.Setenv("STORAGE_EMULATOR_HOST", address)
		throughStore(t, "gs://"+testBucket)
	})
}

// serve starts a server that listens, and ends it with the test.
func serve(t *testing.T, program, install string, args func(host, port string) []string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("no %s on the PATH: %s", program, install)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args(host, port)...)
	cmd.Dir = t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	for range 300 {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return address
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s ended: %v", program, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatalf("%s does not listen", program)
	return ""
}

func throughStore(t *testing.T, bucket string) {
	ctx := t.Context()
	t.Cleanup(store.Tables.Forget)
	t.Setenv("TMPDIR", t.TempDir()) // to see the files left there
	local, err := writeDemo()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(local)
	// Partitions, one of them with a character that names escape, and what Spark leaves beside the files.
	for i := range demoFiles {
		dir := filepath.Join(local, []string{"site=a%3Ab", "site=c"}[i%2])
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("part-%d.csv", i)
		if err := os.Rename(filepath.Join(local, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = store.WriteFile(ctx, store.Join(bucket, "noise", filepath.Base(dir), name), b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"_SUCCESS", "_temporary/0/part-9.csv", "site=c/.part-1.csv.crc"} {
		if err := store.WriteFile(ctx, store.Join(bucket, "noise", name), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	model := filepath.Join(t.TempDir(), "model.rf")
	fit := func(args ...string) FitResult {
		t.Helper()
		code, out, errs := call(t, append([]string{"fit", "--target", demoTarget, "--id", demoID, "--json",
			"--features", "16", "--bandwidth", "1", "--lambda", "1", "--scaling", "standard"}, args...)...)
		var r FitResult
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
			t.Fatalf("fit %v: %d %v %s%s", args, code, err, out, errs)
		}
		return r
	}
	want := fit(local, "-o", model)
	remote := bucket + "/models/model.rf"
	if got := fit(bucket+"/noise", "-o", remote); got.SHA256 != want.SHA256 || got.Rows != want.Rows {
		t.Errorf("%d rows, SHA-256 %s; from local files %d, %s", got.Rows, got.SHA256, want.Rows, want.SHA256)
	} else if !strings.Contains(strings.Join(got.Notes, " "), `column "site" comes from the names of the folders`) {
		t.Errorf("notes %q", got.Notes)
	}
	if got := fit(bucket+"/noise/site=*", "-o", remote, "--work", bucket+"/work"); got.SHA256 != want.SHA256 {
		t.Errorf("by a pattern, with a work folder: another model")
	}
	if code, out, errs := call(t, "evaluate", remote, bucket+"/noise/site=?/part-*.csv"); code != 0 ||
		!strings.HasPrefix(out, "1000 rows\n") {
		t.Errorf("evaluate: %d %s%s", code, out, errs)
	}
	predictions := bucket + "/predictions"
	if code, out, errs := call(t, "predict", remote, bucket+"/noise/", "-o", predictions); code != 0 ||
		!strings.HasSuffix(out, "2000 rows in 4 files\n") {
		t.Errorf("predict: %d %s%s", code, out, errs)
	}
	b, err := store.ReadFile(ctx, predictions+"/predictions.json")
	var p work.Predictions
	if err := json.Unmarshal(b, &p); err != nil || p.Rows != 2000 ||
		p.Shards[0].Input != bucket+"/noise/site=a%3Ab/part-0.csv" {
		t.Errorf("%s: %v", b, err)
	}
	if err != nil {
		t.Error(err)
	}
	for _, s := range p.Shards {
		if b, err := store.ReadFile(ctx, predictions+"/"+s.File); err != nil || strings.Count(string(b), "\n") != 501 {
			t.Errorf("%s: %d lines, %v", s.File, strings.Count(string(b), "\n"), err)
		}
	}
	for _, c := range []struct {
		want string
		code int
		args []string
	}{
		{"not empty", 1, []string{"predict", remote, bucket + "/noise", "-o", predictions}},
		{"it would be replaced", 2, []string{"fit", bucket + "/noise", "--target", demoTarget, "-o",
			bucket + "/noise/site=c/part-1.csv"}},
		{"no tables", 1, []string{"fit", bucket + "/none-such", "--target", demoTarget, "-o", remote}},
		{"no object matches", 1, []string{"fit", bucket + "/none-*.csv", "--target", demoTarget, "-o", remote}},
		{"leave out the size of units", 1, []string{"fit", bucket + "/noise", "--unit-bytes", "1000", "-o", remote}},
		{"models/none.rf", 1, []string{"evaluate", bucket + "/models/none.rf", bucket + "/noise"}},
	} {
		if code, _, errs := call(t, c.args...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%v: status %d, %q; want %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
	left, err := store.List(ctx, bucket+"/")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if !strings.HasPrefix(name, bucket+"/noise/") && !strings.HasPrefix(name, predictions+"/") && name != remote {
			t.Errorf("%s was left behind", name)
		}
	}
	if copies, _ := filepath.Glob(filepath.Join(os.TempDir(), "rfbeam-object-*")); len(copies) > 0 {
		t.Errorf("%v were left behind", copies)
	}
}
