package main

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
)

const head = `## Accuracy

Written by ` + "`go run ./accuracy`" + ` in ` + "`bench`" + `. Ours (trig features, orthogonal projections) against %s.

- Scores are points: %% of classes right, or 100·R² for regression (marked R²). Higher is better.
- Both sides get the same numbers: rows encoded by a schema that ` + "`data.Learn`" + ` made of the set; MNIST pixels divided by 255,
  and for 8×8 the means of 3×3 pixels of the central 24×24. Same splits: a fifth for testing (MNIST: 5000 of its test images), at most
  10000 training rows, R random splits; every split has projections of its own.
- Same number of features F: ours has F/2 projections, a sine and a cosine of each, ` + "`RBFSampler`" + ` has F, ` + "`Nystroem`" + ` F of the training rows.
- Same grid: bandwidth 2, 1, ½, ¼, ⅛ of the median distance × λ = 10, 1, …, 10⁻⁴, chosen by the errors of three folds
  of the training rows, or where there are more than 3000 by one fold of three of 3000 of them. Logistic regression tries the bandwidth of its ridge and
  the next smaller one, λ = 1, 0.1, 0.01, 10⁻³, on one of the folds, with 200 iterations at most.
- Differences are ours − theirs over the splits, with 95 %% intervals by the corrected resampled t-test (Nadeau & Bengio 2003).
  *better*: all of the interval is above 0; *within*: it reaches 0; *worse*: it does not. With so few splits intervals are wide: *within* is no proof of equality.

`

func report(all []outcome, versions string) string {
	var b strings.Builder
	fmt.Fprintf(&b, head, versions)
	counts := map[string]int{}
	for _, kind := range []string{"ridge", "logistic"} {
		fmt.Fprintf(&b, "### %s against pipelines of as many features\n\n", strings.ToUpper(kind[:1])+kind[1:])
		b.WriteString("| set | rows × columns, classes | training rows | R | F | ours | RBFSampler | ours − RBFSampler | | Nystroem | ours − Nystroem | |\n")
		b.WriteString("|---|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---|\n")
		for _, o := range all {
			ours := o.parts["ours"][kind]
			if ours == nil {
				continue
			}
			fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %.2f |", o.set.name, o.shape(), o.Train, len(ours.Scores),
				o.set.features, mean(ours))
			for _, peer := range []string{"RBFSampler", "Nystroem"} {
				theirs := o.parts["peers"][peer+" "+kind]
				if theirs == nil {
					b.WriteString(" | | |")
					continue
				}
				d := paired(ours.Scores, theirs.Scores, o.Test, o.Train)
				fmt.Fprintf(&b, " %.2f | %v | %s |", mean(theirs), d, d.verdict())
				counts[peer+" "+kind+" "+strings.Trim(d.verdict(), "*")]++
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
	b.WriteString(reasons)
	moreTable(&b, all)
	for _, peer := range []string{"RBFSampler", "Nystroem"} {
		for _, kind := range []string{"ridge", "logistic"} {
			k := peer + " " + kind + " "
			fmt.Fprintf(&b, "%s + %s: ours better on %d sets, within on %d, worse on %d.\n", peer, kind,
				counts[k+"better"], counts[k+"within"], counts[k+"worse"])
		}
	}
	b.WriteString("\n")
	exactTable(&b, all)
	autoTable(&b, all)
	return b.String()
}

const reasons = `Nystroem's features are kernels with F of the training rows, so they know where the data are: with many columns (images) as many random
features, ours or RBFSampler's, are behind them. They also cost more: F·(d + F) multiply-adds per row, where ours take F·d/2. So here is
ours with 4F features, which is 2·F·d, on the sets where it is worse above; bandwidth and λ are still those chosen with F.

`

// peerKinds are the names of the pipelines.
var peerKinds = []string{"RBFSampler ridge", "Nystroem ridge", "RBFSampler logistic", "Nystroem logistic"}

// worse reports whether ours is worse than a pipeline of the same kind.
func (o outcome) worse(peer string) bool {
	_, kind, _ := strings.Cut(peer, " ")
	ours, theirs := o.parts["ours"][kind], o.parts["peers"][peer]
	return ours != nil && theirs != nil && paired(ours.Scores, theirs.Scores, o.Test, o.Train).high < 0
}

func (o outcome) behind() bool { return slices.ContainsFunc(peerKinds, o.worse) }

func moreTable(b *strings.Builder, all []outcome) {
	b.WriteString("| set | pipeline | F | theirs | 4F | ours | ours − theirs | |\n|---|---|---:|---:|---:|---:|---:|---|\n")
	for _, o := range all {
		for _, peer := range peerKinds {
			_, kind, _ := strings.Cut(peer, " ")
			ours, theirs := o.parts["more"][kind], o.parts["peers"][peer]
			if ours == nil || !o.worse(peer) {
				continue
			}
			d := paired(ours.Scores, theirs.Scores, o.Test, o.Train)
			fmt.Fprintf(b, "| %s | %s | %d | %.2f | %d | %.2f | %v | %s |\n", o.label(), peer, o.set.features,
				mean(theirs), 4*o.set.features, mean(ours), d, d.verdict())
		}
	}
	b.WriteString("\n")
}

const exactHead = `### Ours against exact kernels

At most 5000 training rows of the same splits (the first 5, or 3 of larger sets), where kernel matrices fit; choices as above, by 2000 rows at most; the same
bandwidths, the same λ for kernel ridge regression (KRR, on centred targets), C = 1, 10, 100, 1000 for the support-vector machine. Ours may have more features here.
The target is a mean difference of −2 points or more, of the better of ours (ridge or logistic, by this table) from each.

| set | training rows | F | ours, ridge | ours, logistic | KRR | ours − KRR | | SVM | ours − SVM | |
|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---|
`

func exactTable(b *strings.Builder, all []outcome) {
	b.WriteString(exactHead)
	for _, o := range all {
		ours, theirs := o.parts["large"], o.parts["exact"]
		if ours == nil || theirs == nil {
			continue
		}
		best := ours["ridge"]
		logistic := ""
		if l := ours["logistic"]; l != nil {
			logistic = fmt.Sprintf("%.2f", mean(l))
			if mean(l) > mean(best) {
				best = l
			}
		}
		fmt.Fprintf(b, "| %s | %d | %d | %.2f | %s |", o.label(), o.Exact, o.set.large, mean(ours["ridge"]), logistic)
		for _, peer := range []string{"exact KRR", "exact SVM"} {
			t := theirs[peer]
			if t == nil {
				b.WriteString(" | | |")
				continue
			}
			d := paired(best.Scores, t.Scores, o.Test, o.Exact)
			fmt.Fprintf(b, " %.2f | %v | %s |", mean(t), d, d.near())
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

const autoHead = `### Nothing chosen by hand

` + "`tabular.Fit`" + ` on the training lines of the same splits (the first 5, or 3 of larger sets) as they are in the file, with all its defaults, against ours of the first
tables on the same splits. It learns its own encoding from the training rows (pixels are standardised), and chooses F up to 2048. F is the median over splits.

| set | ridge: F | auto | auto − grid | logistic: F | auto | auto − grid |
|---|---:|---:|---:|---:|---:|---:|
`

func autoTable(b *strings.Builder, all []outcome) {
	b.WriteString(autoHead)
	for _, o := range all {
		if o.parts["auto"] == nil {
			continue
		}
		fmt.Fprintf(b, "| %s |", o.label())
		for _, kind := range []string{"ridge", "logistic"} {
			chosen, grid := o.parts["auto"][kind], o.parts["ours"][kind]
			if chosen == nil || grid == nil {
				b.WriteString(" | | |")
				continue
			}
			f := slices.Sorted(slices.Values(chosen.Features))
			fmt.Fprintf(b, " %d | %.2f | %v |", f[len(f)/2], mean(chosen), paired(chosen.Scores, grid.Scores, o.Test,
				o.Train))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

func (o outcome) label() string {
	if o.Classes == 0 {
		return o.set.name + ", R²"
	}
	return o.set.name
}

func (o outcome) shape() string {
	if o.Classes == 0 {
		return fmt.Sprintf("%d × %d, R²", o.Rows, o.Width)
	}
	return fmt.Sprintf("%d × %d, %d", o.Rows, o.Width, o.Classes)
}

func mean(r *result) float64 { return stat.Mean(r.Scores, nil) }
