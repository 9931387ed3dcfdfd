package theory

import "github.com/randfeat/randfeat/internal/forms"

// ErrNoClosedForm is wrapped by errors that say which quantity has no closed form.
var ErrNoClosedForm = forms.ErrNoClosedForm
