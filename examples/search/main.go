// Command search finds the texts closest to a query. It hashes the words and letter trigrams of a text into a
// vector. Random features of the vectors turn a kernel between texts into an inner product, which is all that a
// vector index needs. For real use, replace embed by the embeddings of a language model.
//
//	search [QUERY]
package main

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"log"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

var texts = []string{
	"the server reloads its model when the file changes",
	"restart the server after a change of the model file",
	"prediction intervals hold nine of ten new observations",
	"how wide is the interval of a prediction",
	"orthogonal projections lower the variance of random features",
	"random features estimate a kernel by inner products",
	"attention over many keys takes time quadratic in the length",
	"linear attention takes time linear in the length",
	"missing values are replaced by the mean of their column",
	"a column of dates becomes days and seasons",
	"wheels for Linux, macOS and Windows",
	"install the package with pip",
}

const dim = 256

// embed hashes words and letter trigrams into a vector of length 1.
func embed(x []float64, text string) {
	clear(x)
	add := func(part string, weight float64) {
		h := fnv.New64a()
		h.Write([]byte(part))
		sum := h.Sum64()
		if sum>>63 != 0 {
			weight = -weight
		}
		x[sum%dim] += weight
	}
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		add(word, 1)
		for padded := "^" + word + "$"; len(padded) >= 3; padded = padded[1:] {
			add(padded[:3], 0.5)
		}
	}
	norm := math.Sqrt(dense.Norm2(x))
	for i := range x {
		x[i] /= max(norm, 1e-12)
	}
}

func main() {
	query := "reload a changed model"
	if len(os.Args) > 1 {
		query = strings.Join(os.Args[1:], " ")
	}
	vectors, q := dense.New[float64](len(texts), dim), dense.New[float64](1, dim)
	for i, t := range texts {
		embed(vectors.Row(i), t)
	}
	embed(q.Row(0), query)

	k := kernel.Kernel{Kind: kernel.Gaussian, Scale: 0.7}
	m, err := randfeat.New[float64](randfeat.Spec{Kernel: k, Family: family.Trig{}, Coupling: coupling.Orthogonal{},
		Dim: dim, M: 1024, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	index, phi := dense.New[float64](len(texts), m.OutDim()), dense.New[float64](1, m.OutDim())
	if err := m.Keys(index, nil, vectors, nil); err != nil { // computed once for all texts
		log.Fatal(err)
	}
	if err := m.Queries(phi, nil, q, nil); err != nil {
		log.Fatal(err)
	}
	exact := dense.New[float64](1, len(texts))
	if err := kernel.Gram(k, exact, q, vectors); err != nil {
		log.Fatal(err)
	}

	scores, order := make([]float64, len(texts)), make([]int, len(texts))
	for i := range texts {
		scores[i], order[i] = dense.Dot(phi.Row(0), index.Row(i)), i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	fmt.Printf("%q, estimated and exact kernel:\n", query)
	for _, i := range order[:3] {
		fmt.Printf("%.2f %.2f  %s\n", scores[i], exact.At(0, i), texts[i])
	}
}
