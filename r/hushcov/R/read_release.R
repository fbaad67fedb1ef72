# Reads what hushcov wrote, and computes no number of its own.

read_release <- function(folder, check = TRUE) {
  if (!is.character(folder) || length(folder) != 1L || is.na(folder)) {
    stop("folder must be one path: name the folder of a release.", call. = FALSE)
  }
  document <- read_json(folder, "release.json")
  if (is.null(document) || is.null(document$guarantee)) {
    stop(folder, " must be the folder of a release, with release.json in it: check the path.",
         call. = FALSE)
  }
  checked <- if (isTRUE(check)) check_files(folder, document$files) else "nothing"
  read <- c("pairs.csv", "variances.csv", "summary.json")
  missing <- read[!file.exists(file.path(folder, read))]
  if (length(missing)) {
    stop(folder, " has no ", paste(missing, collapse = ", "), ", from which R reads: in Python, ",
         "hushcov.load(folder).save(another) writes such tables.", call. = FALSE)
  }
  pairs <- read_table(folder, "pairs", c("feature_1", "feature_2"))
  variances <- read_table(folder, "variances", "feature")
  summary <- read_json(folder, "summary.json")
  structure(
    list(
      covariance = read_matrix(folder, "covariance", variances$feature),
      correlation = read_matrix(folder, "correlation", variances$feature),
      pairs = pairs,
      variances = variances,
      level = summary$level,
      guarantee = c(
        list(promise = summary$promise),
        document$guarantee[c("epsilon", "delta", "adjacency", "unit", "rows_per_unit", "private")],
        list(preconditions = unlist(document$guarantee$preconditions), odds = summary$odds)
      ),
      verdict = lapply(summary$verdict, function(x) if (is.null(x)) NA_real_ else x),
      structure = summary$structure,
      mechanism = summary$name,
      records = summary$records,
      found = summary$found_pairs,
      warnings = unlist(document$warnings),
      checked = checked,
      folder = folder,
      document = document
    ),
    class = "hushcov_release"
  )
}

print.hushcov_release <- function(x, n = 10L, ...) {
  show_head(x)
  nonzero <- x$pairs[x$pairs$status == "nonzero" & !is.na(x$pairs$correlation), ]
  found <- head(nonzero, n)
  if (nrow(found)) {
    cat("\nStrongest pairs, with", level_words(x), "that count the privacy noise:\n")
    columns <- c("feature_1", "feature_2", "correlation", "correlation_lower", "correlation_upper")
    found <- shown_table(setNames(found[columns], c(columns[1:3], "lower", "upper")))
    print(found, digits = 3, row.names = FALSE)
  }
  more <- nrow(nonzero) - nrow(found)
  if (more > 0) cat(more, "more that are not zero: $pairs has all.\n")
  invisible(x)
}

summary.hushcov_release <- function(object, ...) {
  structure(list(release = object), class = "summary.hushcov_release")
}

print.summary.hushcov_release <- function(x, ...) {
  release <- x$release
  show_head(release)
  show_line("structure", release$structure$kind)
  show_line("conditions", paste(release$guarantee$preconditions, collapse = "; "))
  show_line("files", release$checked)
  show_line("warnings", paste(release$warnings, collapse = " "))
  cat("\nVariances, with", paste0(level_words(release), ":\n"))
  columns <- intersect(
    c("feature", "mean", "mean_lower", "mean_upper", "variance", "lower", "upper",
      "standard_deviation"),
    names(release$variances)
  )
  print(shown_table(release$variances[columns]), digits = 4, row.names = FALSE)
  invisible(x)
}

show_head <- function(x) {
  features <- nrow(x$variances)
  cat("Private covariance of ", features, if (features == 1) " feature" else " features", "\n",
      sep = "")
  show_line("verdict", paste0(x$verdict$word, ": ", x$verdict$sentence))
  show_line("guarantee", x$guarantee$promise)
  if (!isTRUE(x$guarantee$private)) {
    show_line("private", "NO: made for tests or simulations, with noise that can be known")
  }
  show_line("mechanism", x$mechanism)
  show_line("records", x$records)
}

show_line <- function(label, words) {
  if (length(words) == 0L || !any(nzchar(words))) return(invisible())
  words <- shown_text(words)
  cat(strwrap(words, initial = sprintf("  %-10s ", label), prefix = strrep(" ", 13)), sep = "\n")
}

level_words <- function(x) paste(100 * x$level, "% intervals")
