package datasets

import (
	_ "embed"
	"encoding/json"
)

// listed is the list of the data sets: addresses at a commit, which do not change. MNIST has two public copies of the
// original files of yann.lecun.com/exdb/mnist. Their compressed bytes differ from the ones at hand, their content does
// not.
//
//go:embed list.json
var listed []byte

// converts are the files whose downloads have another form.
var converts = map[string]func([]byte) ([]byte, error){
	"abalone/abalone.data":               ended,
	"boston/housing.data":                ended,
	"campaign/campaign.csv.gz":           tableOfXY,
	"car/car.data":                       headless,
	"chess/krkopt.data":                  headless,
	"ionosphere/ionosphere.data":         ended,
	"nursery/nursery.data":               headless,
	"wine/wine.data":                     lastFirst,
	"wine_quality/winequality-red.csv":   ended,
	"wine_quality/winequality-white.csv": ended,
	"yeast/yeast.data":                   unindented,
}

// List returns the data sets that our code and documents refer to.
func List() []Set {
	var sets []Set
	if err := json.Unmarshal(listed, &sets); err != nil {
		panic(err) // the file is part of the program
	}
	for _, s := range sets {
		for i, f := range s.Files {
			s.Files[i].convert = converts[f.Path]
		}
	}
	return sets
}
