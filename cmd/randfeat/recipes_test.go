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
	"strconv"
	"strings"
	"testing"
)

const recipeEnv = "RANDFEAT_TEST_RECIPE"

// TestRecipeCommand is no test: it is the command, as recipes call it.
func TestRecipeCommand(t *testing.T) {
	if os.Getenv(recipeEnv) == "" {
		t.Skip("only as a child of another test")
	}
	os.Exit(runChecked(context.Background(), flag.Args(), os.Stdin, os.Stdout, os.Stderr))
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

// manifests are the Jobs of the recipe, by step.
func manifests(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile("../../examples/scale/jobs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string]string{}
	for _, job := range strings.Split(string(b), "---\n") {
		jobs[field(job, "generateName")] = job
	}
	return jobs
}

func field(job, key string) string {
	m := regexp.MustCompile(`(?m)^ *` + key + `: (\S+)`).FindStringSubmatch(job)
	if m == nil {
		return ""
	}
	return m[1]
}

// The manifests name the same number of workers everywhere, every step that kubernetes.sh creates is there under a name
// of its own, one failure ends a Job, and no command needs a shell.
func TestRecipeManifests(t *testing.T) {
	script, err := os.ReadFile("../../examples/scale/kubernetes.sh")
	if err != nil {
		t.Fatal(err)
	}
	steps := regexp.MustCompile(`for step in (.*);`).FindSubmatch(script)
	if steps == nil {
		t.Fatal("kubernetes.sh has no steps")
	}
	jobs := manifests(t)
	names := strings.Fields(string(steps[1]))
	if len(jobs) != len(names) {
		t.Fatalf("%d jobs, %d steps", len(jobs), len(names))
	}
	for _, step := range names {
		job := jobs["randfeat-"+step+"-"]
		if field(job, "kind") != "Job" || field(job, "apiVersion") != "batch/v1" ||
			strings.Count(job, "step: "+step) != 2 ||
			!strings.Contains(job, "args: [parts, "+step+", /data/run") || field(job, "command") != "[/bin/randfeat]" {
			t.Errorf("step %s:\n%s", step, job)
		}
		workers := regexp.MustCompile(`\$\(WORKER\)/(\d+)`).FindStringSubmatch(job)
		indexed := step == "learn" || step == "sum"
		if indexed != (workers != nil) || indexed != (field(job, "completionMode") == "Indexed") ||
			indexed != (field(job, "maxFailedIndexes") == "0") {
			t.Errorf("step %s:\n%s", step, job)
		}
		if indexed && (field(job, "completions") != workers[1] || field(job, "parallelism") != workers[1]) {
			t.Errorf("step %s: other numbers of workers:\n%s", step, job)
		}
	}
}

// The manifests are Jobs by the schemas that Kubernetes publishes, where the checker is installed.
func TestRecipeSchemas(t *testing.T) {
	if _, err := exec.LookPath("kubernetes-validate"); err != nil {
		t.Skip("no kubernetes-validate on the PATH: pip install kubernetes-validate")
	}
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	var all []string
	for name, job := range manifests(t) { // the checker wants a name
		all = append(all, strings.Replace(job, "generateName: "+name, "name: "+name+"1", 1))
	}
	if err := os.WriteFile(file, []byte(strings.Join(all, "---\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"1.29", "1.37"} {
		out, err := exec.Command("kubernetes-validate", "--strict", "-k", version, file).CombinedOutput()
		if err != nil || strings.Count(string(out), " passed for resource job/") != 4 {
			t.Errorf("%s: %v\n%s", version, err, out)
		}
	}
}

// TestKubectlCommand is no test: it is a kubectl that runs Jobs at once, in the folder of RANDFEAT_TEST_RECIPE. Exit
// status 2 of one worker fails its Job, which then never completes.
func TestKubectlCommand(t *testing.T) {
	dir := os.Getenv(recipeEnv)
	if dir == "" {
		t.Skip("only as a child of another test")
	}
	args := flag.Args()
	switch {
	case args[0] == "create" && args[1] == "-f" && args[3] == "-l" && slices.Equal(args[5:], []string{"-o", "name"}):
		prefix := "randfeat-" + strings.TrimPrefix(args[4], "step=") + "-"
		job := manifests(t)[prefix]
		last, err := os.MkdirTemp(dir, prefix)
		if err != nil {
			t.Fatal(err)
		}
		count, state := max(1, atoi(field(job, "completions"))), "Complete"
		list := regexp.MustCompile(`args: \[(.*)\]`).FindStringSubmatch(job)[1]
		list = strings.ReplaceAll(strings.ReplaceAll(list, "/data", filepath.Join(dir, "data")), `"`, "")
		for i := range count {
			call := strings.Split(strings.ReplaceAll(list, "$(WORKER)", fmt.Sprint(i)), ", ")
			if code := runChecked(t.Context(), call, os.Stdin, os.Stderr, os.Stderr); code != 0 {
				state = "FailureTarget"
			}
		}
		if err := os.WriteFile(filepath.Join(last, "state"), []byte(state), 0o666); err != nil {
			t.Fatal(err)
		}
		fmt.Println("job.batch/" + filepath.Base(last))
	case args[0] == "get" && args[2] == "-o" && strings.HasPrefix(args[3], "jsonpath={.status.conditions"):
		b, err := os.ReadFile(filepath.Join(dir, strings.TrimPrefix(args[1], "job.batch/"), "state"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(string(b))
	case args[0] == "logs":
		fmt.Println("the last lines of", args[1])
	default:
		t.Fatalf("kubectl %q", args)
	}
	os.Exit(0)
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// kubernetes.sh gives the model of one process, again if it is called again, and ends when a Job has failed.
func TestRecipeKubernetes(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	dir := t.TempDir()
	table := filepath.Join(dir, "data")
	for _, name := range []string{table, filepath.Join(dir, "bin")} {
		if err := os.Mkdir(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	shards(t, table, 3, "csv")
	stub := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' -test.run='^TestKubectlCommand$' -- \"$@\"\n", recipeEnv, dir,
		os.Args[0])
	if err := os.WriteFile(filepath.Join(dir, "bin", "kubectl"), []byte(stub), 0o777); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	script := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(here, "../../examples/scale/kubernetes.sh"))
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "POLL_SECONDS=0")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	pattern, model := filepath.Join(table, "part-*.csv"), filepath.Join(table, "model.rf")
	ok(t, append([]string{"parts", "fit", pattern, "-o", filepath.Join(dir, "want.rf")}, partsFlagsOf...)...)
	want, err := os.ReadFile(filepath.Join(dir, "want.rf"))
	if err != nil {
		t.Fatal(err)
	}
	ok(t, append([]string{"parts", "init", filepath.Join(table, "run"), pattern}, partsFlagsOf...)...)
	for range 2 {
		os.Remove(model)
		if out, err := script(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got, err := os.ReadFile(model); err != nil || !bytes.Equal(got, want) {
			t.Errorf("another model than that of one process (%v)", err)
		}
	}
	if err := os.Remove(filepath.Join(table, "part-01.csv")); err != nil {
		t.Fatal(err)
	}
	out, err := script()
	if err == nil || !strings.Contains(out, "failed: kubectl describe job.batch/randfeat-learn-") ||
		!strings.Contains(out, "the last lines of") || strings.Contains(out, "randfeat-choose") {
		t.Errorf("%v\n%s", err, out)
	}
}
