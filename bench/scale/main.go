// Command scale measures attention by the number of threads, with PyTorch beside it:
//
//	cd bench && go run ./scale -threads 1,2,4,8,16 -python python3
//
// Every number of threads has a process of its own, started with that GOMAXPROCS. One process works at a time, in
// turns, so that disturbances by the host hit all of them. "Independent calls" is what the machine gives to as many
// threads that share nothing; no other row can do better. If "products" are among the cases, the speed-ups of the
// rows after them are compared with theirs: what the host gives to vector units at that time.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	serving := flag.Bool("serve", false, "run cases on request")
	threads := flag.String("threads", "1,2", "numbers of threads")
	python := flag.String("python", "", "Python with torch; empty: ours only")
	script := flag.String("script", "scale/peers.py", "the peers")
	only := flag.String("only", "", "regular expression on the names of cases")
	seconds := flag.Float64("seconds", 4, "time for a case")
	flag.Parse()
	if *serving {
		serve(os.Stdin, os.Stdout)
		return
	}
	if err := run(strings.Split(*threads, ","), *python, *script, regexp.MustCompile(*only), *seconds); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// request asks for timed runs of a case. Runs follow each other for at least 20 ms, after some that are not timed: a
// few short calls on many threads would be over before the host has given them their cores. answer has the wall and
// CPU time of one run.
type request struct {
	Case    string `json:"case"`
	Threads int    `json:"threads"`
}

type answer struct {
	Wall  float64 `json:"wall"`
	CPU   float64 `json:"cpu"`
	Error string  `json:"error"`
}

// serve answers requests. The memory of a case is kept until another case is asked for.
func serve(in io.Reader, out io.Writer) {
	lines, enc := bufio.NewScanner(in), json.NewEncoder(out)
	var name string
	var run func()
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			panic(err)
		}
		if r.Case != name {
			name, run = r.Case, nil
			runtime.GC()
			for _, c := range cases() {
				if c.name == name {
					run = c.make()
				}
			}
		}
		repeat(run, 5*time.Millisecond)
		cpu, start := cpuSeconds(), time.Now()
		n := repeat(run, 20*time.Millisecond)
		_ = enc.Encode(answer{Wall: time.Since(start).Seconds() / n, CPU: (cpuSeconds() - cpu) / n})
	}
}

// repeat runs until the time is over, at least once, and returns the number of runs.
func repeat(run func(), least time.Duration) (n float64) {
	for start := time.Now(); n == 0 || time.Since(start) < least; n++ {
		run()
	}
	return n
}

// process answers requests on its standard output.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(threads string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...)}
	p.cmd.Env = append(os.Environ(), "GOMAXPROCS="+threads, "OMP_WAIT_POLICY=PASSIVE")
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewReader(out)
	return p, p.cmd.Start()
}

func (p *process) ask(r request) (a answer, err error) {
	if err := json.NewEncoder(p.in).Encode(r); err != nil {
		return a, err
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, fmt.Errorf("%s: %s", r.Case, a.Error)
	}
	return a, nil
}

// run prints the table.
func run(threads []string, python, script string, only *regexp.Regexp, seconds float64) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var ours []*process
	for _, n := range threads {
		p, err := start(n, self, "-serve")
		if err != nil {
			return err
		}
		ours = append(ours, p)
	}
	var peer *process
	if python != "" {
		if peer, err = start("1", python, script); err != nil {
			return err
		}
	}
	fmt.Printf("| median ms at threads | %s | speed-up | of the best runs | to that of products "+
		"| CPU, most threads / one | rounds |\n|---|%s---:|---:|---:|---:|---:|\n",
		strings.Join(threads, " | "), strings.Repeat("---:|", len(threads)))
	var host float64 // the speed-up of products
	counts := make([]int, len(threads))
	for i, n := range threads {
		if _, err := fmt.Sscan(n, &counts[i]); err != nil {
			return err
		}
	}
	for _, c := range cases() {
		if only.MatchString(c.name) {
			got, err := table(c.name, counts, seconds, host, func(i int) (answer, error) {
				return ours[i].ask(request{c.name, counts[i]})
			})
			if err != nil {
				return err
			}
			if c.name == productsName {
				host = got
			}
		}
		for _, name := range c.peers {
			if peer == nil || !only.MatchString(name) {
				continue
			}
			_, err := table(name, counts, seconds, host, func(i int) (answer, error) {
				return peer.ask(request{name, counts[i]})
			})
			if err != nil {
				return err
			}
		}
	}
	for _, p := range append(ours, peer) {
		if p != nil {
			p.in.Close()
			_ = p.cmd.Wait()
		}
	}
	return nil
}

// table prints a row: rounds over all numbers of threads until the time is over, at least three. It returns the
// speed-up, and compares it with that of products if it is known.
func table(name string, counts []int, seconds, host float64, ask func(i int) (answer, error)) (float64, error) {
	wall, cpu := make([][]float64, len(counts)), make([][]float64, len(counts))
	rounds := 0
	for begin := time.Now(); rounds < 3 || rounds < 25 && time.Since(begin).Seconds() < seconds; rounds++ {
		for i := range counts {
			a, err := ask(i)
			if err != nil {
				return 0, err
			}
			wall[i], cpu[i] = append(wall[i], a.Wall), append(cpu[i], a.CPU)
		}
	}
	fmt.Printf("| %s |", name)
	for i := range wall {
		slices.Sort(wall[i])
		slices.Sort(cpu[i])
		fmt.Printf(" %.3f |", 1e3*wall[i][rounds/2])
	}
	last := len(counts) - 1
	speedup, ratio := wall[0][rounds/2]/wall[last][rounds/2], "—"
	if host > 0 {
		ratio = fmt.Sprintf("%.2f", speedup/host)
	}
	fmt.Printf(" %.2f | %.2f | %s | %.2f | %d |\n", speedup, wall[0][0]/wall[last][0], ratio,
		cpu[last][rounds/2]/max(1e-9, cpu[0][rounds/2]), rounds)
	return speedup, nil
}
