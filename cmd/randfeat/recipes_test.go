//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const recipeEnv = "RANDFEAT_TEST_RECIPE"

// TestRecipeCommand is no test: it is the command, as recipes call it.
func TestRecipeCommand(t *testing.T) {
	if os.Getenv(recipeEnv) == "" {
		t.Skip("only as a child of another test")
	}
	os.Exit(run(context.Background(), flag.Args(), os.Stdin, os.Stdout, os.Stderr))
}

// sbatch runs a job at once, and all of an array; it prints the number of the job, which the next one must wait for.
const sbatch = `#!/bin/sh
n=$(($(cat jobs 2>/dev/null || echo 0) + 1))
last=0 array=no
while [ $# -gt 0 ]; do
	case $1 in
	--parsable | --partition=small) ;;
	--array=0-*) last=${1#--array=0-} array=yes ;;
	--dependency=afterok:*) [ "${1#--dependency=afterok:}" = $((n - 1)) ] || exit 3 ;;
	--wrap) command=$2; shift ;;
	*) exit 2 ;;
	esac
	shift
done
for i in $(seq 0 "$last"); do
	if [ $array = yes ]; then export SLURM_ARRAY_TASK_ID=$i; fi
	sh -c "$command" >&2 || exit 1
done
echo $n | tee jobs
`

// The recipes of examples/scale all give the model of one process.
func TestRecipes(t *testing.T) {
	for _, tool := range []string{"bash", "make", "xargs", "seq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s", tool)
		}
	}
	dir := t.TempDir()
	path := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path(name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("bin/randfeat", fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' -test.run='^TestRecipeCommand$' -- \"$@\"\n", recipeEnv,
		os.Args[0]), 0o777)
	write("bin/sbatch", sbatch, 0o777)
	for i := range 5 {
		var b bytes.Buffer
		b.WriteString("a,b,y\n")
		for j := range 60 {
			u, v := float64(j%10)/10, float64((7*j+i)%13)/13
			fmt.Fprintf(&b, "%g,%.3f,%.3f\n", u, v, u*v+u)
		}
		write(fmt.Sprintf("data/part-%d.csv", i), b.String(), 0o666)
	}
	t.Setenv("PATH", path("bin")+":"+os.Getenv("PATH"))
	t.Setenv("GOMAXPROCS", "1")
	t.Setenv("SBATCH_OPTIONS", "--partition=small")
	recipes, err := filepath.Abs("../../examples/scale")
	if err != nil {
		t.Fatal(err)
	}
	call := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	fit := []string{"data", "--target", "y", "--features", "16", "--bandwidth", "1", "--lambda", "0.1", "--scaling",
		"standard"}
	call("randfeat", slices.Concat([]string{"parts", "fit"}, fit, []string{"-o", "model.rf"})...)
	digest := func(name string) string {
		b, err := os.ReadFile(path(name))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x", sha256.Sum256(b))
	}
	want := digest("model.rf")
	for _, c := range []struct {
		name string
		run  func(run, model string)
	}{
		{"xargs", func(run, model string) { call("bash", filepath.Join(recipes, "xargs.sh"), run, "2", model) }},
		{"make", func(run, model string) {
			call("make", "-s", "-j", "2", "-f", filepath.Join(recipes, "Makefile"), "RUN="+run, "WORKERS=3",
				"MODEL="+model)
		}},
		{"slurm", func(run, model string) { call("bash", filepath.Join(recipes, "slurm.sh"), run, "4", model) }},
	} {
		call("randfeat", slices.Concat([]string{"parts", "init", c.name}, fit)...)
		c.run(c.name, c.name+".rf")
		if got := digest(c.name + ".rf"); got != want {
			t.Errorf("%s: SHA-256 %s, one process has %s", c.name, got, want)
		}
	}
}

// The manifests name the same number of workers everywhere, and every step that kubernetes.sh applies is there.
func TestRecipeManifests(t *testing.T) {
	b, err := os.ReadFile("../../examples/scale/jobs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../../examples/scale/kubernetes.sh")
	if err != nil {
		t.Fatal(err)
	}
	steps := regexp.MustCompile(`for step in (.*);`).FindSubmatch(script)
	if steps == nil {
		t.Fatal("kubernetes.sh has no steps")
	}
	jobs := strings.Split(string(b), "---\n")
	if names := strings.Fields(string(steps[1])); len(jobs) != len(names) {
		t.Fatalf("%d jobs, %d steps", len(jobs), len(names))
	}
	field := func(job, key string) string {
		m := regexp.MustCompile(`(?m)^ *` + key + `: (\S+)`).FindStringSubmatch(job)
		if m == nil {
			return ""
		}
		return m[1]
	}
	for i, step := range strings.Fields(string(steps[1])) {
		job := jobs[i]
		if field(job, "kind") != "Job" || field(job, "apiVersion") != "batch/v1" ||
			field(job, "name") != "randfeat-"+step ||
			!strings.Contains(job, "randfeat parts "+step+" /data/run") || strings.Count(job, "step: "+step) != 2 {
			t.Errorf("step %s:\n%s", step, job)
		}
		workers := regexp.MustCompile(`\$JOB_COMPLETION_INDEX/(\d+)`).FindStringSubmatch(job)
		indexed := step == "learn" || step == "sum"
		if indexed != (workers != nil) || indexed != (field(job, "completionMode") == "Indexed") {
			t.Errorf("step %s:\n%s", step, job)
		}
		if indexed && (field(job, "completions") != workers[1] || field(job, "parallelism") != workers[1]) {
			t.Errorf("step %s: other numbers of workers:\n%s", step, job)
		}
	}
}
