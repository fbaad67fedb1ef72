# The files of a release: tables, matrices, and whether they are undamaged.

read_json <- function(folder, name) {
  path <- file.path(folder, name)
  if (!file.exists(path)) return(NULL)
  tryCatch(
    jsonlite::fromJSON(path, simplifyVector = FALSE, bigint_as_char = TRUE),
    error = function(e) stop(path, " is damaged: it is not JSON.", call. = FALSE)
  )
}

# Numbers that were not found are empty in the file and NA here.
read_table <- function(folder, name, words) {
  path <- file.path(folder, paste0(name, ".csv"))
  titles <- names(read.csv(path, nrows = 1L, check.names = FALSE, encoding = "UTF-8"))
  kinds <- setNames(rep("numeric", length(titles)), titles)
  kinds[intersect("status", titles)] <- "character"
  kinds[words] <- "character"
  table <- read.csv(path, colClasses = kinds, na.strings = "", encoding = "UTF-8")
  table[words] <- lapply(table[words], plain_name)
  table
}

# The matrix from its CSV file, or for a large covariance from the array beside it.
read_matrix <- function(folder, name, features) {
  path <- file.path(folder, paste0(name, c(".npy", ".csv")))
  if (file.exists(path[1L])) {
    values <- read_array(path[1L])
  } else if (file.exists(path[2L])) {
    table <- read.csv(path[2L], na.strings = "")  # names are set below
    values <- unname(as.matrix(table[-1L]))
    storage.mode(values) <- "double"
  } else {
    return(NULL)
  }
  dimnames(values) <- list(features, features)
  values
}

# An array of numpy: a header that says its shape, then doubles by rows.
read_array <- function(path) {
  file <- file(path, "rb")
  on.exit(close(file))
  start <- readBin(file, "raw", 8L)
  size <- readBin(file, "integer", 1L, size = 2L, signed = FALSE, endian = "little")
  header <- rawToChar(readBin(file, "raw", size))
  shape <- regmatches(header, regexec("'shape': \\(([0-9]+), ([0-9]+)\\)", header))[[1L]][-1L]
  if (!identical(start[7:8], as.raw(1:0)) || length(shape) != 2L ||
        !grepl("'<f8'", header) || !grepl("'fortran_order': False", header)) {
    stop(path, " must hold a matrix of doubles by rows, in version 1.0 of its format.",
         call. = FALSE)
  }
  shape <- as.integer(shape)
  values <- readBin(file, "double", prod(shape), size = 8L, endian = "little")
  matrix(values, shape[1L], shape[2L], byrow = TRUE)
}

# Text without characters that a terminal would obey: names may hold any.
shown_text <- function(text) gsub("[\\p{C}\\p{Zl}\\p{Zp}]", "?", enc2utf8(text), perl = TRUE)

shown_table <- function(table) {
  words <- vapply(table, is.character, TRUE)
  table[words] <- lapply(table[words], shown_text)
  table
}

# Names that a spreadsheet would run as a formula have an apostrophe before them in CSV files.
plain_name <- function(text) {
  text[is.na(text)] <- ""
  signs <- "=+@\uff1d\uff0b\uff0d\uff20-"  # the same in full width
  pattern <- paste0("^'(?=['\\p{C}\\p{Z}]*[", signs, "]|'*[\t\r\n])")
  sub(pattern, "", enc2utf8(text), perl = TRUE)
}

# Sizes and SHA-256 of every file. Damage is an error; the answer says what was looked at.
check_files <- function(folder, files) {
  damaged <- function(name, why) {
    stop(folder, " holds no valid release: ", name, " ", why,
         ". Restore it from a copy; do not use it.", call. = FALSE)
  }
  plain <- nzchar(names(files)) & !names(files) %in% c(".", "..") &
    !grepl("[/\\\\[:cntrl:]]", names(files))
  if (!"integers.npy" %in% names(files) || !all(plain)) {
    damaged("release.json", "must list files of this folder by name, with integers.npy")
  }
  paths <- file.path(folder, names(files))
  sizes <- file.size(paths)
  for (i in seq_along(paths)) {
    if (is.na(sizes[i])) damaged(names(files)[i], "is missing")
    if (sizes[i] != files[[i]]$bytes) damaged(names(files)[i], "has another size than release.json says")
  }
  seal <- file.path(folder, "release.sha256")
  if (!file.exists(seal)) damaged("release.sha256", "is missing")
  found <- sha256(c(file.path(folder, "release.json"), paths))
  if (is.null(found)) {
    return(paste("sizes of", length(files), "files match; SHA-256 takes R 4.5 or sha256sum"))
  }
  expected <- c(substr(readLines(seal, 1L), 1L, 64L), vapply(files, function(x) x$sha256, ""))
  wrong <- which(found != expected)
  if (length(wrong)) damaged(c("release.json", names(files))[wrong[1L]], "does not match its checksum")
  paste(length(found), "files match their SHA-256 checksums")
}

# Of R itself since 4.5, else of a program of the system; NULL where there is neither.
sha256 <- function(paths) {
  own <- get0("sha256sum", asNamespace("tools"), inherits = FALSE)
  if (!is.null(own)) return(unname(own(paths)))
  for (program in c("sha256sum", "shasum")) {
    if (nzchar(Sys.which(program))) {
      options <- if (program == "shasum") c("-a", "256")
      lines <- vapply(paths, function(path) {
        system2(program, options, stdin = path, stdout = TRUE)[1L]
      }, "")
      return(unname(substr(lines, 1L, 64L)))
    }
  }
  NULL
}
