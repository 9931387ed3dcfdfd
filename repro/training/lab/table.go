package lab

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// sample has one value per seed.
type sample map[uint64]float64

// interval returns the mean and the half width of its 95 % interval (Student), which is NaN for one seed.
func (s sample) interval() (mean, half float64) {
	n := float64(len(s))
	for _, seed := range keys(s) {
		mean += s[seed] / n
	}
	var v float64
	for _, seed := range keys(s) {
		v += (s[seed] - mean) * (s[seed] - mean)
	}
	if n < 2 {
		return mean, math.NaN()
	}
	t := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975)
	return mean, t * math.Sqrt(v/(n-1)/n)
}

func (s sample) String() string {
	if len(s) == 0 {
		return "–"
	}
	mean, half := s.interval()
	if math.IsNaN(half) {
		return fmt.Sprintf("%.4f", mean)
	}
	return fmt.Sprintf("%.4f ± %.4f", mean, half)
}

// minus returns the differences for the seeds that both have.
func (s sample) minus(o sample) sample {
	d := sample{}
	for seed, x := range s {
		if y, ok := o[seed]; ok {
			d[seed] = x - y
		}
	}
	return d
}

// verdict judges the claim that the differences are positive.
func (s sample) verdict() string {
	mean, half := s.interval()
	switch {
	case len(s) < 2:
		return "not measured"
	case mean-half > 0:
		return "reproduced"
	case mean+half < 0:
		return "**opposite**"
	}
	return "not told apart"
}

func keys[K cmp.Ordered, V any](m map[K]V) []K {
	all := make([]K, 0, len(m))
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// results are the rows of one experiment.
type results []Row

// of returns one value per seed from the rows that where selects.
func (r results) of(value func(Row) float64, where func(Row) bool) sample {
	s := sample{}
	for _, row := range r {
		if row.Error == "" && where(row) {
			s[row.Seed] = value(row)
		}
	}
	return s
}

func accuracy(r Row) float64 { return r.Accuracy }
func loss(r Row) float64     { return r.Loss }

func (r results) methods(part string) []string {
	var all []string
	for _, row := range r {
		if row.Part == part && !slices.Contains(all, row.Method) {
			all = append(all, row.Method)
		}
	}
	return all
}

func (r results) steps(part string) []int {
	all := map[int]bool{}
	for _, row := range r {
		if row.Part == part && row.Error == "" {
			all[row.Step] = true
		}
	}
	return keys(all)
}

// Tables reads rows, one JSON object per line, and writes their tables as Markdown.
func Tables(w io.Writer, rows io.Reader) error {
	by := map[string]results{}
	lines := bufio.NewScanner(rows)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var r Row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		by[r.Experiment] = append(by[r.Experiment], r)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for _, name := range keys(by) {
		switch r := by[name]; {
		case name == "darkformer":
			r.darkformer(out)
		case name == "glue":
			r.glue(out)
		case name == "glue encoder":
			r.encoder(out)
		case name == "speech":
			r.speech(out)
		case name == "pretrain":
			r.pretrain(out)
		case name == "language":
			r.language(out)
		case name == "words":
			r.words(out)
		case strings.HasPrefix(name, "vit "):
			r.vit(out, strings.TrimPrefix(name, "vit "))
		default:
			return fmt.Errorf("no experiment %q", name)
		}
	}
	return out.Flush()
}

func header(w io.Writer, cells ...string) {
	line(w, cells...)
	line(w, slices.Repeat([]string{"---"}, len(cells))...)
}

func line(w io.Writer, cells ...string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }

// claim writes one row of a table of claims: the paper's ordering, our difference and the verdict.
func claim(w io.Writer, paper, what string, d sample) {
	line(w, paper, what, d.String(), d.verdict())
}

// regimes writes tables of accuracies by regime and step.
func (r results) regimes(w io.Writer) {
	for _, part := range []string{"full", "partial", "M only"} {
		steps := r.steps(part)
		if len(steps) == 0 {
			continue
		}
		head := []string{"fine-tuning, " + part}
		for _, s := range steps {
			head = append(head, fmt.Sprintf("%d steps", s))
		}
		header(w, append(head, "last loss")...)
		for _, m := range r.methods(part) {
			cells := []string{m}
			var last sample
			for _, s := range steps {
				at := func(row Row) bool { return row.Part == part && row.Method == m && row.Step == s }
				cells, last = append(cells, r.of(accuracy, at).String()), r.of(loss, at)
			}
			line(w, append(cells, last.String())...)
		}
		fmt.Fprintln(w)
	}
}

// early and last are the evaluations that claims are about: the second and the last.
const early, last = 1, 99

// darkClaims starts a table of claims with those of DARKFormer's Figures 2 to 4, and returns a function that adds
// others.
func (r results) darkClaims(w io.Writer) (above func(says, part, a, b string, i int)) {
	at := func(part, m string, i int) sample {
		steps := r.steps(part)
		if len(steps) == 0 {
			return nil
		}
		s := steps[min(i, len(steps)-1)]
		return r.of(accuracy, func(row Row) bool { return row.Part == part && row.Method == m && row.Step == s })
	}
	header(w, "the paper", "here", "difference of accuracies", "verdict")
	above = func(says, part, a, b string, i int) {
		when := "early"
		if i == last {
			when = "last"
		}
		claim(w, says, fmt.Sprintf("%s − %s, %s", a, b, when), at(part, a, i).minus(at(part, b, i)))
	}
	above("Fig 2: DARK above Performer, soon", "full", "dark", "performer", early)
	above("Fig 2: exact above DARK", "full", "exact", "dark", last)
	gap := at("full", "dark", early).minus(at("full", "performer", early)).
		minus(at("full", "dark", last).minus(at("full", "performer", last)))
	claim(w, "Fig 3: Performer closes the gap later", "gap, early − last", gap)
	above("Fig 4: DARK above Performer, partial", "partial", "dark", "performer", last)
	return above
}

// language writes DARKFormer's regimes from a published decoder.
func (r results) language(w io.Writer) {
	fmt.Fprint(w, "### DARKFormer, Figures 2–4, from a published decoder: held-out accuracy of the next token\n\n")
	r.regimes(w)
	r.darkClaims(w)
	fmt.Fprintln(w)
}

func (r results) darkformer(w io.Writer) {
	fmt.Fprintln(w, "### DARKFormer, Figures 2–5: held-out accuracy of the next character")
	fmt.Fprintln(w)
	for _, row := range r {
		if row.Part == "pretraining" {
			fmt.Fprintf(w, "Pretrained with exact attention, %d steps: loss %.4f, accuracy %.4f.\n\n", row.Step, row.Loss, row.Accuracy)
		}
	}
	r.regimes(w)
	above := r.darkClaims(w)
	above("Fig 2: DARK above LFK", "full", "dark", "lfk", early)
	above("Fig 2: features above constant", "full", "performer", "constant", last)
	above("Fig 2: features above random", "full", "performer", "random", last)
	above("(ours) OPRF × simplex above Performer", "full", "oprf-simplex", "performer", early)
	above("(ours) adaptive above Performer", "full", "adaptive", "performer", early)
	above("(ours) adaptive above DARK", "full", "adaptive", "dark", early)
	fmt.Fprintln(w)

	rates := map[float64]bool{}
	for _, row := range r {
		if row.Part == "sweep" {
			rates[row.Rate] = true
		}
	}
	if len(rates) == 0 {
		return
	}
	fmt.Fprintln(w, "Figure 5, learning rates: last loss; spikes (steps more than 0.3 nats above the mean of the 20 before), the worst loss, runs that diverged.")
	fmt.Fprintln(w)
	methods, steps := r.methods("sweep"), r.steps("sweep")
	end := 0
	if len(steps) > 0 {
		end = steps[len(steps)-1]
	}
	header(w, append([]string{"rate"}, methods...)...)
	total := map[string]sample{}
	for _, rate := range keys(rates) {
		cells := []string{fmt.Sprintf("%g", rate)}
		for _, m := range methods {
			mine := func(row Row) bool { return row.Part == "sweep" && row.Method == m && row.Rate == rate }
			at := func(row Row) bool { return mine(row) && row.Step == end }
			spikes, worst, failed := 0, 0.0, 0
			for _, row := range r {
				if total[m] == nil {
					total[m] = sample{}
				}
				if mine(row) && row.Error != "" {
					failed++
					total[m][row.Seed]++ // a diverged run counts as a spike
				}
				if row.Error == "" && at(row) {
					spikes, worst = spikes+row.Spikes, max(worst, row.Worst)
					total[m][row.Seed] += float64(row.Spikes)
				}
			}
			cells = append(cells, fmt.Sprintf("%s; %d, %.2f, %d", r.of(loss, at), spikes, worst, failed))
		}
		line(w, cells...)
	}
	fmt.Fprintln(w)
	header(w, "the paper", "here", "difference of spikes and diverged runs per seed", "verdict")
	claim(w, "Fig 5: DARK is stabler", "performer − dark, all rates", total["performer"].minus(total["dark"]))
	fmt.Fprintln(w)
}

func (r results) vit(w io.Writer, set string) {
	fmt.Fprintf(w, "### Vision Transformers on %s: test accuracy\n\n", set)
	last := func(part, m string) sample {
		s := r.steps(part)
		if len(s) == 0 {
			return nil
		}
		end := s[len(s)-1]
		return r.of(accuracy, func(row Row) bool { return row.Part == part && row.Method == m && row.Step == end })
	}
	header(w, "attention", "from nothing", "fine-tuned from exact")
	for _, m := range r.methods("scratch") {
		line(w, m, last("scratch", m).String(), last("fine-tuned", m).String())
	}
	fmt.Fprintln(w)
	header(w, "the paper", "here", "difference of accuracies", "verdict")
	for _, part := range []string{"scratch", "fine-tuned"} {
		above := func(says, a, b string) {
			claim(w, says, fmt.Sprintf("%s − %s, %s", a, b, part), last(part, a).minus(last(part, b)))
		}
		above("Chefs Fig 4: FAVOR++ above FAVOR+", "favor++", "favor+")
		above("SimRF Fig 9: simplex above orthogonal", "simplex", "favor++")
	}
	fmt.Fprintln(w)
	patches := map[int]bool{}
	for _, row := range r {
		if row.Part == "speed" {
			patches[row.Patches] = true
		}
	}
	if len(patches) == 0 {
		return
	}
	methods := r.methods("speed")
	header(w, append([]string{"patches; training steps per second"}, methods...)...)
	for _, n := range keys(patches) {
		cells := []string{fmt.Sprint(n)}
		for _, m := range methods {
			cell := "–"
			for _, row := range r {
				if row.Part == "speed" && row.Method == m && row.Patches == n {
					if cell = fmt.Sprintf("%.1f", row.PerSecond); row.Error != "" {
						cell = "does not run"
					}
				}
			}
			cells = append(cells, cell)
		}
		line(w, cells...)
	}
	fmt.Fprintln(w)
}

func (r results) glue(w io.Writer) {
	fmt.Fprintln(w, "### Chefs' Table 2 in small: accuracy on held-out sentences")
	fmt.Fprintln(w)
	var sets []string
	for _, row := range r {
		if row.Part == "pretraining" {
			fmt.Fprintf(w, "Pretrained by masked words with exact attention, %d steps: loss %.4f, accuracy %.4f.\n\n", row.Step, row.Loss, row.Accuracy)
		} else if !slices.Contains(sets, row.Part) {
			sets = append(sets, row.Part)
		}
	}
	var methods []string
	for _, s := range sets {
		for _, m := range r.methods(s) {
			if !slices.Contains(methods, m) {
				methods = append(methods, m)
			}
		}
	}
	of := func(set, m string) sample {
		return r.of(accuracy, func(row Row) bool { return row.Part == set && row.Method == m })
	}
	header(w, append([]string{"attention"}, sets...)...)
	for _, m := range methods {
		cells := []string{m}
		for _, s := range sets {
			cells = append(cells, of(s, m).String())
		}
		line(w, cells...)
	}
	fmt.Fprintln(w)
	header(w, "the paper", "here", "difference of accuracies", "verdict")
	for _, s := range sets {
		claim(w, "Table 2: FAVOR++ above FAVOR+", s, of(s, "favor++").minus(of(s, "favor+")))
	}
	fmt.Fprintln(w)
}

// words writes the losses of language models by sampler. The paper's claim is a tie.
func (r results) words(w io.Writer) {
	for _, set := range []string{"ptb", "wikitext2"} {
		for _, row := range r {
			if row.Part == "train "+set {
				fmt.Fprintf(w, "LSTM on %s, softmax over all words, step %d: held-out loss %.4f, perplexity %.1f.\n\n", set, row.Step,
					row.Loss, math.Exp(row.Loss))
			}
		}
		part := "curves " + set
		steps := r.steps(part)
		if len(steps) == 0 {
			continue
		}
		fmt.Fprintf(w, "### Hybrid, Figure 10 in small: held-out loss by sampler, %s\n\n", set)
		head := []string{"negatives"}
		for _, s := range steps {
			head = append(head, fmt.Sprintf("%d steps", s))
		}
		header(w, head...)
		last := map[string]sample{}
		for _, m := range r.methods(part) {
			cells := []string{m}
			for _, s := range steps {
				last[m] = r.of(loss, func(row Row) bool { return row.Part == part && row.Method == m && row.Step == s })
				cells = append(cells, last[m].String())
			}
			line(w, cells...)
		}
		fmt.Fprintln(w)
		header(w, "the paper", "here", "difference of losses", "verdict")
		for _, m := range []string{"trig", "angular"} {
			d := last["FAVOR+"].minus(last[m])
			line(w, "Fig 10: no significant difference (tie)", "FAVOR+ − "+m, d.String(), d.verdict())
		}
		claim(w, "Fig 10: features above uniform draws", "uniform − FAVOR+", last["uniform"].minus(last["FAVOR+"]))
		fmt.Fprintln(w)
	}
}
