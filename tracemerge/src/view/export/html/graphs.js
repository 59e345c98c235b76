// Pictures of the selection.
"use strict";
