# Finds what canter stands on. Order for each: <NAME>_ROOT (variable or environment), then the system,
# then PyPI (headers only, by cmake/fetch_headers.py into the build folder). Each failure prints the
# command that mends it. CANTER_PROVIDERS lists who provided what; `./dev doctor` shows it.

option(CANTER_FETCH_HEADERS "Get headers that the system lacks from PyPI" ON)
set(CANTER_PROVIDERS "" CACHE INTERNAL "who provides each dependency")

# -- the interpreter: its environment has MuJoCo, LibTorch and pybind11 --------------------------------
if(NOT Python_EXECUTABLE AND NOT DEFINED ENV{VIRTUAL_ENV} AND NOT SKBUILD
   AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH "interpreter")
endif()
set(Python_FIND_VIRTUALENV FIRST)
if(CANTER_PYTHON)
  find_package(Python 3.11 COMPONENTS Interpreter Development.Module)
  if(NOT Python_Development.Module_FOUND)
    message(FATAL_ERROR "Python >= 3.11 with its headers is needed for the bindings; run: "
                        "apt-get install -y python3-dev   (or -DCANTER_PYTHON=OFF)")
  endif()
else()
  find_package(Python 3.11 COMPONENTS Interpreter QUIET)
endif()

# records who provides a dependency, for people to read
function(canter_provider name text)
  message(STATUS "canter: ${name} from ${text}")
  set(providers "${CANTER_PROVIDERS}")
  list(APPEND providers "${name}=${text}")
  set(CANTER_PROVIDERS "${providers}" CACHE INTERNAL "who provides each dependency")
endfunction()

# folder of a Python package (empty if there is none), located without importing it
function(canter_python_package name result)
  set(folder "")
  if(Python_EXECUTABLE)
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -c
              "from importlib.util import find_spec as f; s = f('${name}'); print(*(s.submodule_search_locations if s else []))"
      WORKING_DIRECTORY /
      OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

# the value of -D<name>_ROOT, or of the environment variable
macro(canter_root name)
  set(${name}_ROOT "" CACHE PATH "where ${name} is; empty: the system, then the Python environment")
  set(root "${${name}_ROOT}")
  if(NOT root AND DEFINED ENV{${name}_ROOT})
    set(root "$ENV{${name}_ROOT}")
  endif()
endmacro()

# canter_headers(canter_xxhash XXHASH xxhash xxhash.h libxxhash-dev): finds the folder that holds a header,
# sets XXHASH_INCLUDE_DIR and makes the target canter_xxhash
function(canter_headers target name fetch_name header apt_package)
  canter_root(${name})
  set(variable ${name}_INCLUDE_DIR)
  unset(${variable} CACHE)
  set(from "${name}_ROOT")
  if(root)
    find_path(${variable} ${header} PATHS "${root}" PATH_SUFFIXES include single_include . NO_DEFAULT_PATH NO_CACHE)
  else()
    set(fetched "${CANTER_HEADERS_DIR}/include")
    if(NOT ${name}_IGNORE_SYSTEM)
      set(from "the system")
      # PATH would lead into a Python environment, whose oneTBB headers may be too new
      find_path(${variable} ${header} NO_SYSTEM_ENVIRONMENT_PATH NO_CACHE)
    endif()
    if(NOT ${variable} AND NOT EXISTS "${fetched}/${header}" AND CANTER_FETCH_HEADERS AND Python_EXECUTABLE)
      message(STATUS "canter: getting the headers of ${fetch_name} from PyPI")
      execute_process(COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/fetch_headers.py" --into
                              "${CANTER_HEADERS_DIR}" ${fetch_name} RESULT_VARIABLE failed OUTPUT_QUIET)
    endif()
    if(NOT ${variable} AND EXISTS "${fetched}/${header}")
      set(from "PyPI")
      set(${variable} "${fetched}")
    endif()
  endif()
  if(NOT ${variable})
    message(FATAL_ERROR "${header} was not found (root: '${root}'); run: apt-get install -y ${apt_package}   or: "
                        "python3 cmake/fetch_headers.py --into ${CANTER_HEADERS_DIR} ${fetch_name}   "
                        "or pass -D${name}_ROOT=<folder with include/${header}>")
  endif()
  set(${variable} "${${variable}}" PARENT_SCOPE)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE "${${variable}}")
  canter_provider(${fetch_name} "${from} (${${variable}})")
endfunction()

set(CANTER_HEADERS_DIR "${PROJECT_SOURCE_DIR}/build/headers" CACHE PATH "where headers from PyPI are kept")

# -- MuJoCo: part of the public interface ----------------------------------------------------------------
set(MUJOCO_ROOT "" CACHE PATH "folder with include/mujoco and libmujoco; empty: the Python package")
find_package(MuJoCo 4.0 REQUIRED)
set_target_properties(MuJoCo::mujoco PROPERTIES IMPORTED_GLOBAL ON)
if(NOT EXISTS "${MuJoCo_INCLUDE_DIR}/mujoco/mjbatch.h")
  message(FATAL_ERROR "${MuJoCo_INCLUDE_DIR} has no mujoco/mjbatch.h: MuJoCo >= 4.0 is needed; run: "
                      "python3 -m pip install mujoco==4.0.0")
endif()
canter_provider(mujoco "${MuJoCo_LIBRARY} (${MuJoCo_VERSION})")

# -- oneTBB: headers of 2021.8 where a binary shall load with any later library ------------------------------
# a released wheel must: a binary compiled against newer headers fails where an older libtbb is loaded
if(SKBUILD AND NOT TBB_ROOT AND NOT DEFINED ENV{TBB_ROOT})
  find_file(tbb_version_header oneapi/tbb/version.h PATH_SUFFIXES include NO_SYSTEM_ENVIRONMENT_PATH NO_CACHE)
  if(tbb_version_header)
    file(STRINGS "${tbb_version_header}" tbb_interface REGEX "define TBB_INTERFACE_VERSION [0-9]+")
    if(NOT tbb_interface MATCHES " 12080$")
      set(TBB_IGNORE_SYSTEM ON)
    endif()
  endif()
endif()
canter_headers(canter_tbb_headers TBB tbb oneapi/tbb/version.h libtbb-dev)
unset(TBB_LIBRARY CACHE)
canter_root(TBB)
if(root)
  find_library(TBB_LIBRARY NAMES tbb libtbb.so.12 PATHS "${root}" PATH_SUFFIXES lib lib64 . NO_DEFAULT_PATH NO_CACHE)
else()
  find_library(TBB_LIBRARY NAMES tbb libtbb.so.12 NO_SYSTEM_ENVIRONMENT_PATH NO_CACHE)
  if(NOT TBB_LIBRARY AND Python_EXECUTABLE)
    # the `tbb` package puts its library into the environment's lib folder; its record knows where that is
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -c
              "from importlib.metadata import files; print(next(f.locate().resolve() for f in files('tbb') if f.name == 'libtbb.so.12'))"
      WORKING_DIRECTORY / OUTPUT_VARIABLE library OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(EXISTS "${library}")
      set(TBB_LIBRARY "${library}")
    endif()
  endif()
endif()
if(NOT TBB_LIBRARY)
  message(FATAL_ERROR "libtbb.so.12 was not found (root: '${root}'); run: apt-get install -y libtbb-dev   or: "
                      "python3 -m pip install tbb   or pass -DTBB_ROOT=<folder with include and lib>")
endif()
if(NOT TARGET TBB::tbb)
  add_library(TBB::tbb SHARED IMPORTED GLOBAL)
  set_target_properties(TBB::tbb PROPERTIES IMPORTED_LOCATION "${TBB_LIBRARY}")
  target_link_libraries(TBB::tbb INTERFACE canter_tbb_headers)
endif()
canter_provider(libtbb "${TBB_LIBRARY}")

# -- headers used inside src/ only ------------------------------------------------------------------------------
canter_headers(canter_xxhash XXHASH xxhash xxhash.h libxxhash-dev)
canter_headers(canter_toml TOMLPLUSPLUS tomlplusplus toml++/toml.h libtomlplusplus-dev)
canter_headers(canter_cereal CEREAL cereal cereal/cereal.hpp libcereal-dev)
canter_headers(canter_json NLOHMANN_JSON nlohmann_json nlohmann/json.hpp nlohmann-json3-dev)

# -- pybind11 from the interpreter, before Torch: its wheel bundles an older copy ----------------------------------
if(CANTER_PYTHON)
  canter_python_package(pybind11 pybind11_package)
  find_package(pybind11 3.0 CONFIG QUIET PATHS "${pybind11_package}/share/cmake/pybind11" NO_DEFAULT_PATH)
  if(NOT pybind11_FOUND)
    find_package(pybind11 3.0 CONFIG QUIET)
  endif()
  if(NOT pybind11_FOUND)
    message(FATAL_ERROR "pybind11 >= 3.0 was not found; run: ${Python_EXECUTABLE} -m pip install 'pybind11>=3'   "
                        "(or -DCANTER_PYTHON=OFF)")
  endif()
  canter_provider(pybind11 "${pybind11_DIR} (${pybind11_VERSION})")
endif()

# -- LibTorch: optional ----------------------------------------------------------------------------------------------
set(TORCH_ROOT "" CACHE PATH "folder of LibTorch (with share/cmake/Torch); empty: the Python package")
set(CANTER_HAS_TORCH OFF)
if(CANTER_TORCH)
  set(torch_root "${TORCH_ROOT}")
  if(NOT torch_root AND DEFINED ENV{TORCH_ROOT})
    set(torch_root "$ENV{TORCH_ROOT}")
  endif()
  if(NOT torch_root)
    canter_python_package(torch torch_root)
  endif()
  if(EXISTS "${torch_root}/share/cmake/Torch/TorchConfig.cmake")
    find_package(Torch CONFIG REQUIRED PATHS "${torch_root}/share/cmake/Torch" NO_DEFAULT_PATH)
    set(CANTER_HAS_TORCH ON)
    set(canter_torch_root "${torch_root}")
    canter_provider(torch "${torch_root}")
  elseif(CANTER_TORCH STREQUAL "AUTO")
    message(STATUS "canter: no torch in ${Python_EXECUTABLE}; building without canter::torch")
  else()
    message(FATAL_ERROR "LibTorch was not found (root: '${torch_root}'); run: ${Python_EXECUTABLE} -m pip install "
                        "torch==2.13.0   or pass -DTORCH_ROOT=<folder> or -DCANTER_TORCH=OFF")
  endif()
endif()
