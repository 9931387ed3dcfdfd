package serve

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/machine"
)

// optionNames lists the query parameters.
var optionNames = []string{"probabilities", "scores", "variance", "interval"}

// intervals are the values that ?interval accepts, the default first. There are few, because the server keeps
// memory for each.
var intervals = []string{"0.9", "0.5", "0.8", "0.95", "0.99"}

// setOption sets the option of a query parameter; without a value it is on.
func setOption(o *machine.TableOptions, name, value string) *fault {
	if name == "interval" {
		if value == "" || value == "true" {
			value = intervals[0]
		}
		if value == "false" {
			return nil
		}
		if !slices.Contains(intervals, value) {
			return problem(http.StatusBadRequest, "bad_option", "the parameter interval is %s, want one of %s",
				show(value),
				strings.Join(intervals, ", "))
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return internal(err)
		}
		o.Interval = v
		return nil
	}
	field := optionNamed(o, name)
	if field == nil {
		return problem(http.StatusBadRequest, "bad_option", "the parameter %s: want one of %s", show(name),
			strings.Join(optionNames, ", "))
	}
	on, err := strconv.ParseBool(value)
	if err != nil && value != "" { // ?variance
		return problem(http.StatusBadRequest, "bad_option", "the parameter %s is %s, want true or false", name,
			show(value))
	}
	*field = on || value == ""
	return nil
}

func optionNamed(o *machine.TableOptions, name string) *bool {
	switch name {
	case "probabilities":
		return &o.Probabilities
	case "scores":
		return &o.Scores
	case "variance":
		return &o.Variance
	}
	return nil
}

// tableOptions reads the query parameters.
func tableOptions(q url.Values) (o machine.TableOptions, p *fault) {
	for name, values := range q {
		if p := setOption(&o, name, values[len(values)-1]); p != nil {
			return o, p
		}
	}
	return o, nil
}
