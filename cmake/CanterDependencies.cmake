# finds what canter needs; each dependency has X_ROOT to point elsewhere

find_package(Python 3.11 REQUIRED COMPONENTS Interpreter OPTIONAL_COMPONENTS Development.Module)

# the folder of an installed Python package, without importing it; "" if there is none
function(canter_python_package name out)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u; s = u.find_spec('${name}'); print(s.submodule_search_locations[0] if s else '', end='')"
    OUTPUT_VARIABLE folder ERROR_QUIET)
  set(${out} "${folder}" PARENT_SCOPE)
endfunction()

# MuJoCo: headers and library lie inside the Python package
canter_python_package(mujoco mujoco_package)
set(MUJOCO_ROOT "${mujoco_package}" CACHE PATH "folder with include/mujoco/mujoco.h and libmujoco.so.*")
file(GLOB mujoco_library "${MUJOCO_ROOT}/libmujoco.so*" "${MUJOCO_ROOT}/lib/libmujoco.so*")
if(NOT mujoco_library OR NOT EXISTS "${MUJOCO_ROOT}/include/mujoco/mjbatch.h")
  message(FATAL_ERROR "MuJoCo 4 not found: run `${Python_EXECUTABLE} -m pip install mujoco==4.0.0`, or give -DMUJOCO_ROOT=...")
endif()
list(GET mujoco_library 0 mujoco_library)
add_library(canter_mujoco SHARED IMPORTED GLOBAL)
set_target_properties(canter_mujoco PROPERTIES IMPORTED_LOCATION "${mujoco_library}"
                      INTERFACE_INCLUDE_DIRECTORIES "${MUJOCO_ROOT}/include")
set_target_properties(canter_mujoco PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${MUJOCO_ROOT}/include")

find_package(TBB CONFIG)
if(NOT TBB_FOUND)
  message(FATAL_ERROR "oneTBB not found: run `apt-get install libtbb-dev` or `pip install tbb-devel`, or give -DTBB_ROOT=...")
endif()

# header-only libraries, used inside src/ alone
function(canter_headers target header root_variable hint)
  find_path(${target}_include ${header} HINTS "${${root_variable}}" "${${root_variable}}/include" ${ARGN})
  if(NOT ${target}_include)
    message(FATAL_ERROR "${header} not found: ${hint}, or give -D${root_variable}=...")
  endif()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE "${${target}_include}")
endfunction()
canter_python_package(nlohmann_json json_package)
canter_headers(canter_xxhash xxhash.h XXHASH_ROOT "run `apt-get install libxxhash-dev`")
canter_headers(canter_json nlohmann/json.hpp NLOHMANN_JSON_ROOT "run `apt-get install nlohmann-json3-dev`" "${json_package}/include")
canter_headers(canter_toml toml++/toml.h TOMLPLUSPLUS_ROOT "run `apt-get install libtomlplusplus-dev`")
canter_headers(canter_cereal cereal/cereal.hpp CEREAL_ROOT "run `apt-get install libcereal-dev`")

if(CANTER_PYTHON)
  canter_python_package(pybind11 pybind11_package)
  set(PYBIND11_FINDPYTHON ON)
  find_package(pybind11 CONFIG REQUIRED PATHS "${pybind11_package}/share/cmake/pybind11" NO_DEFAULT_PATH)
endif()
if(CANTER_TORCH)
  canter_python_package(torch torch_package)
  set(TORCH_ROOT "${torch_package}" CACHE PATH "folder with share/cmake/Torch")
  find_package(Torch CONFIG PATHS "${TORCH_ROOT}/share/cmake/Torch" NO_DEFAULT_PATH)
  if(NOT TARGET torch)
    message(FATAL_ERROR "LibTorch not found: run `${Python_EXECUTABLE} -m pip install torch==2.13.0`, give -DTORCH_ROOT=..., or build without it: -DCANTER_TORCH=OFF")
  endif()
endif()
